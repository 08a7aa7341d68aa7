//! All limits of this client. Every length from the network is checked against one of them before memory
//! is allocated.

/// The longest message before the server has proved who it is.
pub(super) const UNAUTHENTICATED_BYTES_MAX: usize = 64 * 1024;
/// What is kept of an error or a notice; the rest is read and dropped, since a long message is
/// no reason to lose a session.
pub(super) const SERVER_MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// The longest row, or message of COPY data, from the server.
pub(super) const ROW_BYTES_MAX: usize = 256 * 1024 * 1024;
/// The longest message of any other kind.
pub(super) const CONTROL_BYTES_MAX: usize = 1024 * 1024;
/// The most that one query may return.
pub(super) const RESULT_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Notices kept when the caller sets no limit of its own.
pub(super) const NOTICES_DEFAULT: usize = 10_000;
/// Notices kept, in bytes; the oldest give way.
pub(super) const NOTICES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Parameters that the server may report; real ones report about 16.
pub(super) const PARAMETERS_MAX: usize = 256;
/// Messages that may arrive while we still write; a real server sends an error and its end.
pub(super) const PENDING_MESSAGES_MAX: usize = 64;
/// The largest COPY payload: the server takes messages of less than 1 GiB, length included.
pub(super) const COPY_PAYLOAD_BYTES_MAX: usize = 0x3fff_ffff - 4;
/// How much COPY data goes out between two looks at what the server says.
pub(super) const COPY_LOOK_BYTES: usize = 1024 * 1024;
/// What is read from the socket at once.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Encrypted bytes waiting for the socket.
pub(super) const TLS_BUFFER_BYTES: usize = 256 * 1024;
/// Service and password files longer than this are not ours to read.
pub(super) const CONFIGURATION_FILE_BYTES_MAX: u64 = 1024 * 1024;
/// How long a cancel request may take where no connect timeout is set.
pub(super) const CANCEL_TIMEOUT_S: u64 = 10;
