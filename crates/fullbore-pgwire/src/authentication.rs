//! Logging in: SCRAM-SHA-256 with or without channel binding, MD5, a password in clear.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{
    ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256,
};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;

use super::error::ConnectionError;
use super::options::{AuthenticationMethod, ChannelBindingMode, ConnectionOptions, HostOptions};
use super::server_message::ServerMessage;
use super::tls::certificate;
use super::wire::{Answer, Wire};

/// Answers the server's question, until it lets us in.
pub(super) fn log_in(
    wire: &mut Wire,
    options: &ConnectionOptions,
    host: &HostOptions,
) -> Result<(), ConnectionError> {
    let login = Login { options, host };
    match wire.next()? {
        Answer::Message(Message::AuthenticationOk) => {
            login.require(AuthenticationMethod::None)?;
            login.refuse_without_binding()?;
            wire.set_authenticated();
            return Ok(());
        }
        Answer::Message(Message::AuthenticationCleartextPassword) => {
            login.require(AuthenticationMethod::Password)?;
            login.refuse_without_binding()?;
            login.send_password(wire, login.password()?.as_bytes())?;
        }
        Answer::Message(Message::AuthenticationMd5Password(body)) => {
            login.require(AuthenticationMethod::Md5)?;
            login.refuse_without_binding()?;
            let password = login.password()?.as_bytes();
            let hash = md5_hash(options.user.as_bytes(), password, body.salt());
            login.send_password(wire, hash.as_bytes())?;
        }
        Answer::Message(Message::AuthenticationSasl(body)) => {
            login.require(AuthenticationMethod::Scram)?;
            login.scram(wire, &body)?;
        }
        answer => return Err(login.unexpected(wire, answer)),
    }
    // SCRAM comes here only once the server has proved itself; what it answers now counts.
    match wire.next()? {
        Answer::Message(Message::AuthenticationOk) => {}
        answer => return Err(login.unexpected(wire, answer)),
    }
    wire.set_authenticated();
    Ok(())
}

struct Login<'a> {
    options: &'a ConnectionOptions,
    host: &'a HostOptions,
}

impl Login<'_> {
    fn password(&self) -> Result<&str, ConnectionError> {
        let password = self.host.password.as_ref().map(|password| password.expose());
        password.filter(|password| !password.is_empty()).ok_or_else(|| {
            // A password file that was passed over is the likeliest reason.
            let mut reason = "the server asks for a password, and none was given".to_owned();
            for warning in &self.options.warnings {
                reason.push_str("; ");
                reason.push_str(warning);
            }
            self.refuse(reason, Some("set PGPASSWORD, or put the password into ~/.pgpass"))
        })
    }

    fn send_password(&self, wire: &mut Wire, password: &[u8]) -> Result<(), ConnectionError> {
        let mut message = BytesMut::new();
        frontend::password_message(password, &mut message)
            .map_err(|_| self.refuse("the password holds a NUL character", None))?;
        wire.send(&[&message])
    }

    fn scram(&self, wire: &mut Wire, body: &AuthenticationSaslBody) -> Result<(), ConnectionError> {
        let mut offered = Vec::new();
        let mut mechanisms = body.mechanisms();
        loop {
            match mechanisms.next() {
                Ok(Some(mechanism)) => offered.push(mechanism),
                Ok(None) => break,
                Err(error) => return Err(wire.violate(error.to_string())),
            }
        }
        let (mechanism, binding) = self.choose(wire, &offered)?;
        let mut scram = ScramSha256::new(self.password()?.as_bytes(), binding);
        let wrong = |error: std::io::Error| match error.to_string() {
            reason if reason.contains("iteration count exceeds") => self.refuse(
                "the password was stored with more than 100,000 SCRAM iterations, which Fullbore \
                 does not support",
                Some(
                    "set scram_iterations to 100000 or less on the server and set the role's \
                     password again, or use a certificate or another authentication method",
                ),
            ),
            reason => {
                self.refuse(format!("the server violates the SCRAM protocol: {reason}"), None)
            }
        };

        let mut message = BytesMut::new();
        frontend::sasl_initial_response(mechanism, scram.message(), &mut message).map_err(wrong)?;
        wire.send(&[&message])?;
        match wire.next()? {
            Answer::Message(Message::AuthenticationSaslContinue(body)) => {
                scram.update(body.data()).map_err(wrong)?;
            }
            answer => return Err(self.unexpected(wire, answer)),
        }
        message.clear();
        frontend::sasl_response(scram.message(), &mut message).map_err(wrong)?;
        wire.send(&[&message])?;
        match wire.next()? {
            Answer::Message(Message::AuthenticationSaslFinal(body)) => {
                scram.finish(body.data()).map_err(|_| {
                    self.refuse(
                        "the server could not prove that it knows the password",
                        Some(
                            "this may be an impostor; check the host, and use sslmode=verify-full",
                        ),
                    )
                })
            }
            answer => Err(self.unexpected(wire, answer)),
        }
    }

    /// Which mechanism to use, and what to tell the server of channel binding: a server that
    /// hears "I could, but you don't" and knows that it can, detects somebody in between.
    fn choose(
        &self,
        wire: &Wire,
        offered: &[&str],
    ) -> Result<(&'static str, ChannelBinding), ConnectionError> {
        let required = self.options.channel_binding == ChannelBindingMode::Require;
        let wanted = self.options.channel_binding != ChannelBindingMode::Disable;
        let tls = wire.transport().tls();
        let hash = tls
            .filter(|_| wanted)
            .and_then(|tls| tls.peer_certificates()?.first())
            .and_then(|end_entity| certificate::channel_binding_hash(end_entity));
        if let (Some(hash), true) = (&hash, offered.contains(&SCRAM_SHA_256_PLUS)) {
            let binding = ChannelBinding::tls_server_end_point(hash.clone());
            return Ok((SCRAM_SHA_256_PLUS, binding));
        }
        if required {
            return Err(self.no_binding());
        }
        if !offered.contains(&SCRAM_SHA_256) {
            return Err(self.refuse(
                format!("the server offers only {}", offered.join(", ")),
                Some("Fullbore supports SCRAM-SHA-256"),
            ));
        }
        let binding = match hash {
            Some(_) => ChannelBinding::unrequested(),
            None => ChannelBinding::unsupported(),
        };
        Ok((SCRAM_SHA_256, binding))
    }

    fn require(&self, method: AuthenticationMethod) -> Result<(), ConnectionError> {
        if self.options.required_authentication.allows(method) {
            return Ok(());
        }
        Err(self.refuse(format!("the server uses {method}, which require_auth forbids"), None))
    }

    fn refuse_without_binding(&self) -> Result<(), ConnectionError> {
        match self.options.channel_binding {
            ChannelBindingMode::Require => Err(self.no_binding()),
            ChannelBindingMode::Disable | ChannelBindingMode::Prefer => Ok(()),
        }
    }

    fn no_binding(&self) -> ConnectionError {
        self.refuse(
            "channel_binding=require, but the server does not use channel binding",
            Some("it needs encryption and a password stored as SCRAM-SHA-256"),
        )
    }

    /// What is not an answer to our message: mostly the server's refusal.
    fn unexpected(&self, wire: &mut Wire, answer: Answer) -> ConnectionError {
        match answer {
            Answer::Error(message) if message.code.starts_with("28") => self.refused(message),
            Answer::Error(message) => ConnectionError::Server(message),
            Answer::Message(
                Message::AuthenticationGss
                | Message::AuthenticationKerberosV5
                | Message::AuthenticationScmCredential
                | Message::AuthenticationSspi,
            ) => self.refuse(
                "the server requires an authentication method that Fullbore does not support",
                Some("allow scram-sha-256 in the server's pg_hba.conf"),
            ),
            Answer::Message(_) => wire.violate("an answer that does not belong to a login".into()),
        }
    }

    fn refused(&self, message: Box<ServerMessage>) -> ConnectionError {
        ConnectionError::Authentication {
            target: self.host.describe(),
            user: self.options.user.clone(),
            reason: message.message.clone(),
            hint: (message.code == "28P01").then_some("check the user's name and password"),
            server: Some(message),
        }
    }

    fn refuse(&self, reason: impl Into<String>, hint: Option<&'static str>) -> ConnectionError {
        ConnectionError::Authentication {
            target: self.host.describe(),
            user: self.options.user.clone(),
            reason: reason.into(),
            server: None,
            hint,
        }
    }
}
