//! The options that are a choice among words.

use std::fmt;

use super::super::error::ConnectionError;

/// Makes an enum whose values are the words of a connection option.
macro_rules! choice {
    ($(#[$outer:meta])* $name:ident of $option:literal {
        $($(#[$inner:meta])* $variant:ident = $word:literal),+ $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $($(#[$inner])* $variant),+ }

        impl $name {
            /// Reads the option's word.
            pub(super) fn parse(word: &str) -> Result<Self, ConnectionError> {
                match word {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(ConnectionError::usage(format!(
                        "{}={word} is unknown; it is one of {}",
                        $option,
                        [$($word),+].join(", "),
                    ))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(match self { $(Self::$variant => $word),+ })
            }
        }
    };
}

choice! {
    /// How much is demanded of encryption, from nothing to everything.
    SslMode of "sslmode" {
        /// Never encrypt.
        Disable = "disable",
        /// Encrypt only if the server insists.
        Allow = "allow",
        /// Encrypt if the server can.
        Prefer = "prefer",
        /// Encrypt; trust anybody, unless a root certificate is there to hold against.
        Require = "require",
        /// The certificate must come from a trusted authority.
        VerifyCa = "verify-ca",
        /// It must also be for this host.
        VerifyFull = "verify-full",
    }
}

choice! {
    /// How encryption begins.
    SslNegotiation of "sslnegotiation" {
        /// By asking the server first.
        Postgres = "postgres",
        /// At once, which servers know since 17.
        Direct = "direct",
    }
}

choice! {
    /// Whether the login must be bound to the encrypted channel.
    ChannelBindingMode of "channel_binding" {
        /// Don't.
        Disable = "disable",
        /// If both sides can.
        Prefer = "prefer",
        /// Or refuse to log in.
        Require = "require",
    }
}

choice! {
    /// Which kind of server will do.
    TargetSession of "target_session_attrs" {
        /// Any.
        Any = "any",
        /// One that takes writes.
        ReadWrite = "read-write",
        /// One that does not.
        ReadOnly = "read-only",
        /// One not in recovery.
        Primary = "primary",
        /// One in recovery.
        Standby = "standby",
        /// One in recovery, or else any.
        PreferStandby = "prefer-standby",
    }
}

choice! {
    /// A way to log in that this client knows.
    AuthenticationMethod of "require_auth" {
        /// The password in clear.
        Password = "password",
        /// Its MD5 hash.
        Md5 = "md5",
        /// SCRAM-SHA-256, with or without channel binding.
        Scram = "scram-sha-256",
        /// The server asks for nothing: `trust`, `peer`, a client certificate.
        None = "none",
    }
}

/// All of them.
const METHODS: [AuthenticationMethod; 4] = [
    AuthenticationMethod::Password,
    AuthenticationMethod::Md5,
    AuthenticationMethod::Scram,
    AuthenticationMethod::None,
];

/// The methods of login allowed: `require_auth`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequiredAuthentication {
    allowed: Option<Vec<AuthenticationMethod>>,
}

impl RequiredAuthentication {
    /// Reads a list of methods, or of methods each forbidden by a `!`.
    pub(super) fn parse(text: &str) -> Result<Self, ConnectionError> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let forbidden = words.iter().filter(|word| word.starts_with('!')).count();
        if forbidden != 0 && forbidden != words.len() {
            return Err(ConnectionError::usage(
                "require_auth mixes methods with and without an exclamation mark",
            ));
        }
        let mut named = Vec::new();
        for word in words {
            match word.trim_start_matches('!') {
                // Methods of libpq that we lack: forbidding them is easily obeyed, and one that
                // is demanded will not be among the allowed.
                "gss" | "sspi" | "oauth" => {}
                word => named.push(AuthenticationMethod::parse(word)?),
            }
        }
        let allowed = if forbidden == 0 {
            named
        } else {
            METHODS.into_iter().filter(|method| !named.contains(method)).collect()
        };
        Ok(Self { allowed: Some(allowed) })
    }

    /// The same choice as the option says it, or nothing where none is forbidden.
    pub(super) fn refused(&self) -> String {
        let refused = METHODS.into_iter().filter(|method| !self.allows(*method));
        refused.map(|method| format!("!{method}")).collect::<Vec<_>>().join(",")
    }

    /// Whether a method may be used.
    pub fn allows(&self, method: AuthenticationMethod) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&method))
    }
}
