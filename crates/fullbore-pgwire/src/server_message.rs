//! What the server says in an error or a notice.

use std::fmt;

/// An error or a notice of the server, with the fields that it came with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerMessage {
    /// `ERROR`, `FATAL`, `PANIC`, `WARNING`, `NOTICE`, `DEBUG`, `INFO` or `LOG`, in English
    /// whatever the server's language.
    pub severity: String,
    /// The SQLSTATE, five characters: `42P01`.
    pub code: String,
    /// The message itself.
    pub message: String,
    /// More about it.
    pub detail: Option<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<u32>,
    /// What the server was doing: `COPY t, line 3, column a: "x"`.
    pub where_: Option<String>,
    /// The schema concerned.
    pub schema: Option<String>,
    /// The table concerned.
    pub table: Option<String>,
    /// The column concerned.
    pub column: Option<String>,
    /// The constraint violated.
    pub constraint: Option<String>,
    /// The data type concerned.
    pub data_type: Option<String>,
    /// The function of the server's source that said it: the same in all languages.
    pub routine: Option<String>,
}

impl ServerMessage {
    /// Reads the fields of an ErrorResponse or NoticeResponse. Never fails: before the encoding
    /// is agreed on, or from a server gone wrong, a message half read is worth more than none.
    pub(super) fn parse(mut fields: &[u8]) -> Self {
        let mut message = Self::default();
        while let Some((&kind, rest)) = fields.split_first() {
            if kind == 0 {
                break;
            }
            let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
            let value = String::from_utf8_lossy(&rest[..end]).into_owned();
            fields = rest.get(end + 1..).unwrap_or_default();
            message.set(kind, value);
        }
        message
    }

    fn set(&mut self, kind: u8, value: String) {
        match kind {
            // Translated; `V` is not, but only servers since 9.6 send it.
            b'S' if self.severity.is_empty() => self.severity = value,
            b'V' => self.severity = value,
            b'C' => self.code = value,
            b'M' => self.message = value,
            b'D' => self.detail = Some(value),
            b'H' => self.hint = Some(value),
            b'P' => self.position = value.parse().ok(),
            b'W' => self.where_ = Some(value),
            b's' => self.schema = Some(value),
            b't' => self.table = Some(value),
            b'c' => self.column = Some(value),
            b'n' => self.constraint = Some(value),
            b'd' => self.data_type = Some(value),
            b'R' => self.routine = Some(value),
            _ => {}
        }
    }

    /// Whether the server ends the session with this message.
    pub fn is_fatal(&self) -> bool {
        matches!(self.severity.as_str(), "FATAL" | "PANIC")
    }

    /// The memory held, for bounding queues of messages.
    pub(super) fn bytes(&self) -> usize {
        let optional = [
            &self.detail,
            &self.hint,
            &self.where_,
            &self.schema,
            &self.table,
            &self.column,
            &self.constraint,
            &self.data_type,
            &self.routine,
        ];
        size_of::<Self>()
            + self.severity.len()
            + self.code.len()
            + self.message.len()
            + optional.iter().map(|field| field.as_ref().map_or(0, String::len)).sum::<usize>()
    }
}

impl fmt::Display for ServerMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.severity, self.message)?;
        if let Some(detail) = &self.detail {
            write!(formatter, " ({detail})")?;
        }
        if let Some(context) = &self.where_ {
            write!(formatter, " [{context}]")?;
        }
        write!(formatter, " (SQLSTATE {})", self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read() {
        let message = ServerMessage::parse(
            b"SFEHLER\0VERROR\0C42P01\0Mno table\0Hlook\0P15\0Wline 3\0tt\0Rignored\0\0",
        );
        assert_eq!(message.severity, "ERROR");
        assert_eq!(message.code, "42P01");
        assert_eq!(message.position, Some(15));
        assert_eq!(message.hint.as_deref(), Some("look"));
        assert_eq!(message.table.as_deref(), Some("t"));
        assert_eq!(message.to_string(), "ERROR: no table [line 3] (SQLSTATE 42P01)");
    }

    #[test]
    fn garbage_is_survived() {
        for bytes in [&b""[..], b"\0", b"M", b"Mabc", b"P-1\0", b"M\xff\xfe\0", b"SERROR\0M"] {
            let _ = ServerMessage::parse(bytes);
        }
        assert_eq!(ServerMessage::parse(b"Mcut of").message, "cut of");
    }
}
