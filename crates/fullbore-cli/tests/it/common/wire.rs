//! A way to the server that can be cut at the client's end alone: the server goes on with what it was
//! told, and nobody hears of it.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use fullbore_testing::TestDatabase;

use super::Files;

/// A socket of our own in the place of the server's.
pub struct Wire {
    folder: PathBuf,
    ends: Arc<Ends>,
}

#[derive(Default)]
struct Ends {
    state: Mutex<State>,
    mended: Condvar,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    clients: Vec<UnixStream>,
    /// Held open, so that the server notices nothing.
    servers: Vec<UnixStream>,
}

impl Wire {
    pub fn to(database: &TestDatabase<'_>, files: &Files) -> Self {
        let cluster = database.cluster().cluster();
        let server = cluster.socket_dir.join(format!(".s.PGSQL.{}", cluster.port));
        let folder = files.path("wire");
        std::fs::create_dir(&folder).expect("a folder");
        let listener = UnixListener::bind(folder.join(".s.PGSQL.5432"));
        let listener = listener.expect("a socket");
        let ends = Arc::new(Ends::default());
        let shared = ends.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = shared.state.lock().expect("sound");
                // Who comes while it is cut waits.
                let mut state =
                    shared.mended.wait_while(state, |state| state.is_cut).expect("sound");
                let server = UnixStream::connect(&server).expect("the server listens");
                let clone = |stream: &UnixStream| stream.try_clone().expect("a clone");
                state.clients.push(clone(&client));
                state.servers.push(clone(&server));
                carry(clone(&client), clone(&server));
                carry(server, client);
            }
        });
        Self { folder, ends }
    }

    /// The URL of a database by this way.
    pub fn url(&self, database: &TestDatabase<'_>) -> String {
        format!(
            "postgresql://postgres@/{}?host={}&port=5432",
            database.name(),
            self.folder.display()
        )
    }

    /// Cuts all connections at the client's end; new ones wait.
    pub fn cut(&self) {
        let mut state = self.ends.state.lock().expect("sound");
        state.is_cut = true;
        for client in state.clients.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    pub fn mend(&self) {
        self.ends.state.lock().expect("sound").is_cut = false;
        self.ends.mended.notify_all();
    }
}

/// Carries what comes from one end to the other; what it can't hand on is lost.
fn carry(mut from: UnixStream, mut to: UnixStream) {
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let _ = to.write_all(&buffer[..count]);
        }
    });
}
