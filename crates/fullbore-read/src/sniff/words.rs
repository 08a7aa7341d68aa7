//! Words that columns, totals and footers are called by.

/// Whether a cell reads like a column's name: a known word in it, or two words joined as names are.
pub fn is_name(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let text = text.trim();
    if text.is_empty() || text.len() > 40 {
        return false;
    }
    let words = words(text);
    if words.is_empty() || words.len() > 4 {
        return false;
    }
    words.iter().any(|word| NAMES.binary_search(&word.as_str()).is_ok())
}

/// Whether a cell is written as programs write names: `order_id`, `orderId`, `Sepal.Length`, `Weight (kg)`.
pub fn is_written_as_name(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let is_one_word = text.chars().all(is_word) && text.starts_with(char::is_alphabetic);
    let joined = |joint: u8| {
        (1..bytes.len().saturating_sub(1))
            .any(|at| bytes[at] == joint && bytes[at - 1].is_ascii_alphanumeric())
    };
    let has_hump =
        bytes.windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase());
    let has_unit = text.len() <= 40
        && text.ends_with([')', ']'])
        && text.find(['(', '[']).is_some_and(|at| at > 1 && text.len() - at <= 12);
    is_one_word && (joined(b'_') || joined(b'.') || has_hump) || has_unit
}

/// The words of a name, in lower case: `orderId` has two, and so has `order_id`.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        let ends = !c.is_alphabetic() || c.is_uppercase() && was_lower;
        if ends && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphabetic() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a cell says that its row sums up others.
pub fn is_total(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let text = text.trim().to_lowercase();
    let first = text.split(' ').next().unwrap_or_default();
    is_total_alone(cell)
        || text.len() <= 30 && matches!(first, "total" | "totals" | "gesamt" | "summe")
}

/// The same in a word or two that say nothing else.
pub fn is_total_alone(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    TOTALS.contains(&text.trim().trim_end_matches([':', '.']).to_lowercase().as_str())
}

/// Whether a cell that stands alone in its record reads like a remark, and hardly like anything else.
pub fn is_certain_remark(cell: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(cell) else { return false };
    let text = text.trim().trim_matches(['"', '\'']).to_lowercase();
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    REMARKS.contains(&first) && text.len() > first.len() + 1 || is_total(text.as_bytes())
}

/// Whether a line that is no record reads like a remark beneath a table.
pub fn is_remark(line: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return true };
    let text = text.trim().trim_matches(['"', '\'']).to_lowercase();
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_sentence = text.split_whitespace().count() >= 3;
    is_sentence
        || text.starts_with(['#', '*', '(', '[', '-', '='])
        || text.contains(": ")
        || text.ends_with(':')
        || REMARKS.contains(&first)
        || is_total(text.as_bytes())
}

const TOTALS: [&str; 16] = [
    "total",
    "totals",
    "sum",
    "sums",
    "grand total",
    "sub total",
    "subtotal",
    "average",
    "mean",
    "summe",
    "gesamt",
    "insgesamt",
    "gesamtsumme",
    "somme",
    "suma",
    "totale",
];

const REMARKS: [&str; 22] = [
    "source",
    "sources",
    "note",
    "notes",
    "total",
    "end",
    "eof",
    "generated",
    "created",
    "exported",
    "copyright",
    "quelle",
    "stand",
    "hinweis",
    "anmerkung",
    "rows",
    "records",
    "report",
    "page",
    "disclaimer",
    "updated",
    "legend",
];

/// In order, so that they can be searched.
const NAMES: &[&str] = &[
    "account",
    "action",
    "active",
    "addr",
    "address",
    "age",
    "album",
    "altitude",
    "amount",
    "answer",
    "anzahl",
    "area",
    "article",
    "artikel",
    "artist",
    "author",
    "authors",
    "avg",
    "balance",
    "begin",
    "beschreibung",
    "betrag",
    "bic",
    "birth",
    "birthday",
    "births",
    "body",
    "born",
    "brand",
    "browser",
    "budget",
    "cases",
    "categories",
    "category",
    "child",
    "cities",
    "city",
    "class",
    "client",
    "clients",
    "code",
    "codes",
    "color",
    "colour",
    "column",
    "comment",
    "comments",
    "company",
    "content",
    "cost",
    "costs",
    "count",
    "countries",
    "country",
    "county",
    "created",
    "currency",
    "customer",
    "customers",
    "date",
    "datum",
    "day",
    "death",
    "deaths",
    "deleted",
    "department",
    "dept",
    "depth",
    "desc",
    "description",
    "destination",
    "detail",
    "details",
    "device",
    "distance",
    "district",
    "dose",
    "duration",
    "elevation",
    "email",
    "enabled",
    "end",
    "event",
    "family",
    "fax",
    "field",
    "file",
    "filename",
    "finish",
    "firm",
    "first",
    "firstname",
    "flag",
    "forename",
    "from",
    "fullname",
    "gdp",
    "gender",
    "genre",
    "genus",
    "given",
    "group",
    "groups",
    "height",
    "host",
    "hour",
    "humidity",
    "iban",
    "id",
    "ids",
    "income",
    "index",
    "ip",
    "isbn",
    "item",
    "items",
    "job",
    "key",
    "keys",
    "kind",
    "kunde",
    "kunden",
    "label",
    "land",
    "lang",
    "language",
    "last",
    "lastname",
    "lat",
    "latitude",
    "length",
    "level",
    "link",
    "lng",
    "login",
    "lon",
    "longitude",
    "mail",
    "make",
    "manager",
    "manufacturer",
    "material",
    "max",
    "mean",
    "median",
    "menge",
    "message",
    "middle",
    "min",
    "minute",
    "mobile",
    "mode",
    "model",
    "modified",
    "month",
    "nachname",
    "name",
    "names",
    "nickname",
    "no",
    "note",
    "notes",
    "nr",
    "num",
    "number",
    "occupation",
    "order",
    "orders",
    "organisation",
    "organization",
    "origin",
    "ort",
    "outcome",
    "owner",
    "parent",
    "password",
    "path",
    "pct",
    "percent",
    "percentage",
    "phone",
    "plz",
    "population",
    "port",
    "position",
    "postal",
    "postcode",
    "preis",
    "pressure",
    "price",
    "product",
    "products",
    "profit",
    "province",
    "publisher",
    "qty",
    "quantity",
    "question",
    "rank",
    "rate",
    "rating",
    "ratio",
    "region",
    "regions",
    "remark",
    "remarks",
    "response",
    "result",
    "results",
    "revenue",
    "role",
    "row",
    "salary",
    "sample",
    "score",
    "second",
    "session",
    "sex",
    "shape",
    "share",
    "size",
    "sku",
    "song",
    "source",
    "species",
    "speed",
    "stadt",
    "start",
    "state",
    "states",
    "status",
    "std",
    "strasse",
    "street",
    "subject",
    "sum",
    "summary",
    "supplier",
    "surname",
    "target",
    "tax",
    "team",
    "tel",
    "telephone",
    "temp",
    "temperature",
    "text",
    "time",
    "timestamp",
    "title",
    "to",
    "total",
    "treatment",
    "type",
    "types",
    "unit",
    "units",
    "updated",
    "uri",
    "url",
    "user",
    "username",
    "value",
    "var",
    "variable",
    "vendor",
    "version",
    "volume",
    "vorname",
    "waehrung",
    "website",
    "week",
    "weight",
    "wert",
    "width",
    "year",
    "zip",
    "zipcode",
];
