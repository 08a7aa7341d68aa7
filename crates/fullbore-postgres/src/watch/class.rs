//! The server's wait events in the words of the verdict.
//!
//! Names of events are those of PostgreSQL's wait_event_names.txt and, before 17, of wait_event.c and lwlock.c.

use fullbore_record::observe::WaitClass;

/// What a backend with this wait event waits for.
pub fn of(kind: Option<&str>, event: Option<&str>) -> WaitClass {
    // 17 changed how some are spelt: WALSync became WalSync.
    let event = event.unwrap_or_default().to_ascii_lowercase();
    match kind.unwrap_or_default() {
        "" => WaitClass::Cpu,
        "Client" if event == "clientread" || event == "clientwrite" => WaitClass::Client,
        "Lock" if event == "extend" => WaitClass::Extension,
        "Lock" => WaitClass::Lock,
        "LWLock" | "IO" if event.starts_with("wal") => WaitClass::Wal,
        // A commit that waits for a standby waits for the log to be written there.
        "IPC" if event == "syncrep" => WaitClass::Wal,
        "IO" if is_data_file(&event) => WaitClass::DataFile,
        "LWLock" | "IPC" if event == "bufferio" => WaitClass::DataFile,
        // Short waits for other backends' pages: the price of many at work on one table.
        "LWLock" if event.starts_with("buffer") => WaitClass::Cpu,
        _ => WaitClass::Other,
    }
}

fn is_data_file(event: &str) -> bool {
    ["datafile", "buffile", "aio", "slru"].iter().any(|start| event.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_their_class() {
        for (kind, event, class) in [
            (None, None, WaitClass::Cpu),
            (Some("Client"), Some("ClientRead"), WaitClass::Client),
            (Some("Client"), Some("GssOpenServer"), WaitClass::Other),
            (Some("Lock"), Some("extend"), WaitClass::Extension),
            (Some("Lock"), Some("relation"), WaitClass::Lock),
            (Some("Lock"), Some("transactionid"), WaitClass::Lock),
            (Some("LWLock"), Some("WALInsert"), WaitClass::Wal),
            (Some("LWLock"), Some("WALWrite"), WaitClass::Wal),
            (Some("IO"), Some("WALSync"), WaitClass::Wal),
            (Some("IO"), Some("WalSync"), WaitClass::Wal),
            (Some("IO"), Some("DataFileExtend"), WaitClass::DataFile),
            (Some("IO"), Some("AioIoCompletion"), WaitClass::DataFile),
            (Some("LWLock"), Some("BufferContent"), WaitClass::Cpu),
            (Some("IPC"), Some("SyncRep"), WaitClass::Wal),
            (Some("Timeout"), Some("PgSleep"), WaitClass::Other),
        ] {
            assert_eq!(of(kind, event), class, "{kind:?} {event:?}");
        }
    }
}
