//! What to do about a limit, given the settings in use. Each line is one thing to try.

use std::collections::BTreeMap;

use super::{Limit, phases};
use crate::observe::clock::Activity;
use crate::observe::{Observation, Settings, Volumes};
use crate::terms::{Compress, Method, Publish, Statistics};

/// What advice must know of the run.
#[derive(Debug, Clone)]
pub struct InUse {
    pub streams: usize,
    pub parsers: usize,
    /// Processors of this machine.
    pub cores: usize,
    pub method: Method,
    pub publish: Publish,
    /// How rows are packed on their way, under the direct method.
    pub codec: Compress,
    /// Rows go as COPY text.
    pub is_text: bool,
    /// A compressed file, or a pipe, is read by one thread.
    pub is_read_by_one: bool,
    /// Sources are objects of a store.
    pub has_objects: bool,
    pub settings: Settings,
    pub statistics: Statistics,
}

impl InUse {
    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.values.get(name).map_or("", String::as_str)
    }

    /// As tests have it.
    #[cfg(test)]
    pub(super) fn tried(method: Method, publish: Publish) -> Self {
        Self {
            streams: 4,
            parsers: 2,
            cores: 2,
            method,
            publish,
            codec: Compress::None,
            is_text: false,
            is_read_by_one: false,
            has_objects: false,
            settings: Settings::default(),
            statistics: Statistics::Auto,
        }
    }

    fn version(&self) -> u32 {
        self.setting("server_version_num").parse().unwrap_or_default()
    }
}

/// Advice on a limit of a run of which so much was seen.
pub fn advise(limit: Limit, seen: &Observation, used: &InUse) -> Vec<String> {
    match limit {
        Limit::SourceDisk | Limit::ReadDepth => source(used),
        Limit::ClientCpu => client_cpu(used),
        Limit::TooFewStreams => too_few_streams(seen, used),
        Limit::OneSession => vec![more_streams(used, "CPUs are idle")],
        Limit::DatabaseCpu => database_cpu(used),
        Limit::Wal => wal(seen, used),
        Limit::DatabaseDisk => database_disk(seen, used),
        Limit::ExtensionLock => extension_lock(used),
        Limit::LockWait => lock_wait(seen),
        Limit::LongTail => vec![
            "split the data more evenly: one large file that can't be split (compressed, a pipe) \
             keeps one stream busy after the others are done"
                .into(),
        ],
        Limit::Neighbour => vec![
            "other processes use this machine's CPUs: load after they end, or on another machine"
                .into(),
        ],
        Limit::MaxRate => vec![
            "raise the limit while the load runs: `fullbore runs throttle last RATE`; next time, with --max-rate"
                .into(),
        ],
        Limit::Congestion => congestion(used),
        Limit::SendWindow => vec![
            "raise net.ipv4.tcp_wmem (its third value) on this machine".into(),
            more_streams(used, "or use more connections"),
        ],
        Limit::ReceiveCap => vec![
            "raise net.ipv4.tcp_rmem (its third value) on the server".into(),
            more_streams(used, "or use more connections"),
        ],
        Limit::FlowCap => vec![more_streams(used, "one connection can't go faster")],
        Limit::Indexes
        | Limit::ForeignKeys
        | Limit::Statistics
        | Limit::Verification
        | Limit::Publishing => phases::advice(limit, used),
        Limit::Mixed | Limit::None => Vec::new(),
    }
}

fn source(used: &InUse) -> Vec<String> {
    let place = match used.has_objects {
        true => {
            "load from a machine in the bucket's region, with a faster network; some stores limit \
             each bucket or prefix"
        }
        false => {
            "put the files on a faster disk or on several; `fullbore preflight disk PATH` measures \
             disks"
        }
    };
    let mut lines = vec![place.to_owned()];
    if !used.is_read_by_one {
        lines.push("compressed files (zstd) have fewer bytes to read".into());
    }
    lines
}

fn client_cpu(used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    if used.is_read_by_one {
        lines.push(
            "a compressed file or a pipe is read by one thread: use several files, which are read \
             in parallel"
                .into(),
        );
    }
    if used.parsers < used.cores {
        lines.push(format!("parse with all CPUs: --parsers {}", used.cores));
    } else {
        lines.push("load from a machine with more CPUs".into());
    }
    lines
}

/// More streams, and why: or what lets them be used at all.
fn more_streams(used: &InUse, why: &str) -> String {
    if used.publish.has_one_session(used.method) {
        "by direct one session fills the table: --publish partitions, or --method copy, uses \
         several"
            .into()
    } else {
        format!("{why}: --streams {}", used.streams * 2)
    }
}

/// Fewer bytes for the same rows: a row of TPC-H's lineitem has 1.7 times its bytes as COPY binary.
fn congestion(used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    match used.method {
        Method::Direct if used.codec == Compress::None => lines.push(
            "the network is saturated: --compress zstd compresses the rows, lz4 does so with less CPU"
                .into(),
        ),
        Method::Direct => {}
        _ => {
            if !used.publish.joins_rows() {
                lines.push(
                    "the network is saturated: --method direct --compress zstd compresses the \
                     rows, if the server has the extension"
                        .to_owned(),
                );
            }
            if !used.is_text {
                lines.push("COPY text has fewer bytes: --as-text".to_owned());
            }
        }
    }
    lines.push(
        "`fullbore preflight net` says whether the link is full or more streams would help".into(),
    );
    lines
}

fn too_few_streams(seen: &Observation, used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    if used.is_read_by_one {
        lines.push(
            "one compressed file or pipe is read by one thread: split it into several files".into(),
        );
    }
    if used.parsers < used.cores {
        lines.push(format!("CPUs are idle: --parsers {}", used.cores));
    }
    // Streams that wait for rows are enough of them.
    if lines.is_empty() || !lack_rows(seen) {
        lines.push(more_streams(used, "CPUs are idle"));
    }
    lines
}

/// Whether streams wait for the parsers for more than half of the time in which they have work.
fn lack_rows(seen: &Observation) -> bool {
    let of = |activity| seen.streams.iter().map(|s| s.times.of(activity).ms).sum::<u64>();
    let all: u64 = seen.streams.iter().map(|stream| stream.times.total_ms()).sum();
    let working = all.saturating_sub(of(Activity::Idle) + of(Activity::Held));
    of(Activity::Starved) * 2 > working
}

fn database_cpu(used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    if used.method == Method::Copy {
        lines.push(
            "--method direct costs the server far less, if its extension can be installed: see \
             `fullbore extension check URL`"
                .into(),
        );
    }
    if !used.settings.is_here {
        lines.push(more_streams(used, "use more sessions, if the server has idle CPUs"));
    }
    if used.publish == Publish::Append && used.method == Method::Copy {
        lines.push(
            "indexes are updated row by row: --publish replace or partitions builds them after the \
             rows are loaded"
                .into(),
        );
    }
    lines
}

fn wal(seen: &Observation, used: &InUse) -> Vec<String> {
    let mut lines = Vec::new();
    let level = used.setting("wal_level");
    let skips = used.publish == Publish::Partitions || used.method == Method::Direct;
    match (level, skips) {
        ("minimal", true) => {}
        ("minimal", false) => {
            lines.push("wal_level is minimal: --publish partitions writes no WAL for rows".into())
        }
        _ => lines.push(format!(
            "wal_level={level} writes WAL for every row: with wal_level=minimal and \
             max_wal_senders=0 for the first load, --publish partitions writes none (two restarts \
             and a new base backup; not with standbys, archiving or logical slots)"
        )),
    }
    lines.extend(min_wal_size(seen, used));
    lines.extend(max_wal_size(seen, used));
    lines.push(own_volume(used.settings.volumes.as_ref()));
    lines
}

/// What to do about the log's device, with its name where that is known.
fn own_volume(volumes: Option<&Volumes>) -> String {
    let Some((volumes, wal)) = volumes.and_then(|all| Some((all, all.wal.as_ref()?))) else {
        return "put pg_wal on a device of its own".into();
    };
    if *wal == volumes.data {
        return format!("put pg_wal on a device of its own: it shares {wal} with the tables");
    }
    format!("pg_wal has {wal} to itself: a faster device is needed")
}

/// A segment that is new is filled with zeros before anything is written to it. Checkpoints keep old ones
/// to be used again, as many as they have lately seen a need for, and as `min_wal_size` says.
fn min_wal_size(seen: &Observation, used: &InUse) -> Option<String> {
    let server = seen.server.as_ref()?;
    // Less than a third of the log is not worth it.
    (server.new_log_bytes > 0 && server.new_log_bytes * 3 >= server.wal_bytes).then(|| {
        format!(
            "the server created new WAL segments, each written twice: raise min_wal_size, now {}, \
             before the next load",
            used.setting("min_wal_size")
        )
    })
}

/// Checkpoints that the log's size asks for write pages again and again.
fn max_wal_size(seen: &Observation, used: &InUse) -> Option<String> {
    let requested = seen.server.as_ref().map_or(0, |server| server.checkpoints_requested);
    (requested > 0).then(|| {
        format!(
            "{requested} checkpoints were triggered by WAL size: raise max_wal_size, now {}",
            used.setting("max_wal_size")
        )
    })
}

fn database_disk(seen: &Observation, used: &InUse) -> Vec<String> {
    let mut lines: Vec<String> = max_wal_size(seen, used).into_iter().collect();
    lines.extend(spread(used.settings.volumes.as_ref()));
    lines
}

/// Where new tables could go, by name where that is known.
fn spread(volumes: Option<&Volumes>) -> Vec<String> {
    let Some(volumes) = volumes else {
        return vec!["spread the tables over several disks: --tablespaces A,B".into()];
    };
    let mut lines = Vec::new();
    let data = &volumes.data;
    if volumes.wal.as_ref() == Some(data) {
        lines.push(format!(
            "{data} takes the tables and the write-ahead log: move pg_wal to another device"
        ));
    }
    // One of each volume: a second one there adds nothing.
    let mut others: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, volume) in volumes.tablespaces.iter().filter(|(_, volume)| *volume != data) {
        others.entry(volume).or_insert(name);
    }
    lines.push(match others.len() {
        0 => format!(
            "all tables are on {data}: create tablespaces on other disks, and use --tablespaces A,B"
        ),
        _ => {
            let names: Vec<&str> = others.values().copied().collect();
            let places: Vec<&str> = others.keys().copied().collect();
            format!(
                "spread new tables over {data} and {}: --tablespaces pg_default,{}",
                places.join(", "),
                names.join(",")
            )
        }
    });
    lines
}

fn extension_lock(used: &InUse) -> Vec<String> {
    let line = "--publish partitions needs no such lock: each piece has its own table";
    let enough = used.cores * 2;
    let mut lines = vec![match used.settings.is_here && used.streams > enough {
        // What waited for the lock would then wait for a processor.
        true => format!("{line}; --streams {enough} is enough on this machine"),
        false => line.to_owned(),
    }];
    if used.version() < 160_000 {
        lines.push("PostgreSQL 16 and later extend tables by many pages at a time".into());
    }
    lines
}

fn lock_wait(seen: &Observation) -> Vec<String> {
    match seen.blockers.is_empty() {
        true => vec!["pg_blocking_pids() identifies the session that holds the lock".into()],
        false => {
            seen.blockers.iter().map(|blocker| format!("the lock was held by {blocker}")).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::clock::Spent;
    use crate::observe::{ServerTimes, ThreadTimes};

    #[test]
    fn advice_names_volumes_where_they_are_known() {
        let says = |limit, volumes| {
            let mut used = InUse::tried(Method::Copy, Publish::Append);
            used.settings.volumes = volumes;
            advise(limit, &Observation::default(), &used).join("; ")
        };
        let (data, wal) = ("/data (/dev/vdb)", "/wal (/dev/vdc)");
        let with = |wal: &str, tablespaces: &[(&str, &str)]| {
            let named = |(name, volume): &(&str, &str)| (name.to_string(), volume.to_string());
            let tablespaces = tablespaces.iter().map(named).collect();
            Some(Volumes { data: data.into(), wal: Some(wal.into()), tablespaces })
        };
        assert!(says(Limit::Wal, None).contains("put pg_wal on a device of its own"));
        let one = says(Limit::Wal, with(data, &[]));
        assert!(one.contains("it shares /data (/dev/vdb) with the tables"), "{one}");
        let own = says(Limit::Wal, with(wal, &[]));
        assert!(own.contains("/wal (/dev/vdc) to itself") && !own.contains("put pg_wal"), "{own}");
        let one = says(Limit::DatabaseDisk, with(data, &[]));
        assert!(one.contains("move pg_wal") && one.contains("create tablespaces"), "{one}");
        // One tablespace of each other volume.
        let more = [
            ("same", data),
            ("a", "/a (/dev/vdd)"),
            ("b", "/b (/dev/vde)"),
            ("b2", "/b (/dev/vde)"),
        ];
        let spread = says(Limit::DatabaseDisk, with(wal, &more));
        assert!(spread.ends_with("--tablespaces pg_default,a,b"), "{spread}");
        assert!(!spread.contains("move pg_wal"), "{spread}");
    }

    #[test]
    fn more_streams_are_not_asked_of_what_has_one_session() {
        let streams = [
            Limit::FlowCap,
            Limit::SendWindow,
            Limit::ReceiveCap,
            Limit::TooFewStreams,
            Limit::DatabaseCpu,
        ];
        for limit in streams {
            let says = |method, publish, words: &str| {
                let lines = advise(limit, &Observation::default(), &InUse::tried(method, publish));
                lines.iter().any(|line| line.contains(words))
            };
            assert!(says(Method::Copy, Publish::Replace, "--streams 8"), "{limit:?}");
            assert!(says(Method::Direct, Publish::Partitions, "--streams 8"), "{limit:?}");
            assert!(!says(Method::Direct, Publish::Replace, "--streams"), "{limit:?}");
            assert!(says(Method::Direct, Publish::Replace, "--publish partitions"), "{limit:?}");
        }
    }

    #[test]
    fn more_streams_are_not_asked_where_they_wait_for_rows() {
        let mut seen = Observation { streams: vec![ThreadTimes::default()], ..Default::default() };
        let used = InUse {
            is_read_by_one: true,
            parsers: 1,
            ..InUse::tried(Method::Copy, Publish::Partitions)
        };
        let mut says = |starved, sending| {
            let times = &mut seen.streams[0].times.0;
            for (activity, ms) in
                [(Activity::Starved, starved), (Activity::Sending, sending), (Activity::Idle, 900)]
            {
                times.insert(activity, Spent { ms, cpu_ms: 0 });
            }
            advise(Limit::TooFewStreams, &seen, &used).join("\n")
        };
        let waiting = says(600, 400);
        assert!(waiting.contains("several files") && waiting.contains("--parsers 2"), "{waiting}");
        assert!(!waiting.contains("--streams"), "{waiting}");
        assert!(says(400, 600).contains("--streams 8"));
    }

    #[test]
    fn fewer_bytes_are_asked_of_what_can_send_fewer() {
        let says =
            |used: &InUse| advise(Limit::Congestion, &Observation::default(), used).join("\n");
        let direct = InUse::tried(Method::Direct, Publish::Partitions);
        assert!(says(&direct).contains("--compress zstd"));
        let packed = says(&InUse { codec: Compress::Lz4, ..direct });
        assert!(!packed.contains("--compress") && packed.contains("preflight net"), "{packed}");
        let copied = InUse::tried(Method::Copy, Publish::Partitions);
        assert!(says(&copied).contains("--method direct --compress zstd"));
        assert!(says(&copied).contains("--as-text"));
        let appended = InUse::tried(Method::Copy, Publish::Append);
        assert!(!says(&appended).contains("--method direct"), "{}", says(&appended));
        let text = InUse { is_text: true, ..appended };
        assert!(!says(&text).contains("--as-text"), "{}", says(&text));
    }

    #[test]
    fn sessions_that_waited_for_a_lock_are_not_to_wait_for_processors() {
        let says = |streams, is_here| {
            let mut used = InUse::tried(Method::Copy, Publish::Append);
            (used.streams, used.settings.is_here) = (streams, is_here);
            advise(Limit::ExtensionLock, &Observation::default(), &used).join("\n")
        };
        assert!(says(12, true).contains(
            "--publish partitions needs no such lock: each piece has its own table; --streams 4"
        ));
        assert!(!says(4, true).contains("--streams") && !says(12, false).contains("--streams"));
    }

    #[test]
    fn a_log_in_new_segments_is_worth_a_line() {
        let used = InUse::tried(Method::Copy, Publish::Append);
        let says = |new_log_bytes, wal_bytes| {
            let server = ServerTimes { new_log_bytes, wal_bytes, ..ServerTimes::default() };
            let seen = Observation { server: Some(server), ..Observation::default() };
            let lines = advise(Limit::Wal, &seen, &used);
            lines.iter().any(|line| line.contains("raise min_wal_size"))
        };
        assert!(says(400, 1_000));
        assert!(!says(300, 1_000));
        assert!(!says(0, 0));
    }
}
