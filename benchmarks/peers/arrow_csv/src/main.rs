//! Parses files with arrow-csv, a thread per core: `arrow_csv_parse DESCRIPTION`.
//! The description is what `DataSet.described` of the benchmark gives. Prints the rows.

use std::error::Error;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arrow_csv::ReaderBuilder;
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use serde::Deserialize;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Deserialize)]
struct Description {
    columns: serde_json::Map<String, serde_json::Value>,
    files: Vec<String>,
    delimiter: String,
    quote: String,
    header: bool,
}

fn main() -> Fallible<()> {
    let text = std::env::args().nth(1).ok_or("usage: arrow_csv_parse DESCRIPTION")?;
    let source: Description = serde_json::from_str(&text)?;
    let fields = source.columns.iter().map(|(name, kind)| {
        let kind = kind.as_str().unwrap_or_default();
        Ok(Field::new(name, data_type(kind)?, true))
    });
    let schema = Arc::new(Schema::new(fields.collect::<Fallible<Vec<_>>>()?));
    let next = AtomicUsize::new(0);
    let rows = thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores)
            .map(|_| {
                scope.spawn(|| {
                    let mut rows = 0;
                    while let Some(path) = source.files.get(next.fetch_add(1, Ordering::Relaxed)) {
                        rows += parse(path, &source, &schema)?;
                    }
                    Ok(rows)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum::<Fallible<usize>>()
    })?;
    println!("{rows}");
    Ok(())
}

fn parse(path: &str, source: &Description, schema: &Arc<Schema>) -> Fallible<usize> {
    let mut builder = ReaderBuilder::new(schema.clone())
        .with_header(source.header)
        .with_batch_size(8192)
        .with_delimiter(first_byte(&source.delimiter).ok_or("no delimiter")?);
    // It cannot be told that there are no quotes: a byte that is in no text does the same.
    builder = builder.with_quote(first_byte(&source.quote).unwrap_or(0));
    let mut rows = 0;
    for batch in builder.build(File::open(path)?)? {
        rows += batch?.num_rows();
    }
    Ok(rows)
}

fn first_byte(text: &str) -> Option<u8> {
    text.bytes().next()
}

fn data_type(kind: &str) -> Fallible<DataType> {
    Ok(match kind {
        "int64" => DataType::Int64,
        "int32" => DataType::Int32,
        "float64" => DataType::Float64,
        "bool" => DataType::Boolean,
        "date" => DataType::Date32,
        "timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "text" => DataType::Utf8,
        other => {
            let inside = other.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
            let (precision, scale) = inside
                .and_then(|both| both.split_once(','))
                .ok_or_else(|| format!("no such kind: {other}"))?;
            DataType::Decimal128(precision.parse()?, scale.parse()?)
        }
    })
}
