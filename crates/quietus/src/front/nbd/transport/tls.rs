//! Makes a TLS server of certificate files.

use crate::host::directory::DirectoryError;
use crate::host::paths;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files with the operator's certificates and key, all PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The server's certificate, and those between it and its authority.
    pub certificate: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
    /// Authorities, one of which must have signed a client's certificate. If
    /// there are none, clients need no certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Reason why no TLS server can be made of the files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] DirectoryError),
    /// A file cannot be parsed.
    #[error("{path}: no certificate or private key can be read: {source}; expected PEM")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the host or of the parser.
        source: pem::Error,
    },
    /// A file holds no certificate.
    #[error("{0}: no certificate found; expected PEM")]
    Empty(PathBuf),
    /// The certificate authorities cannot be used.
    #[error("cannot use the client certificate authorities: {0}")]
    Authorities(String),
    /// Certificate and key cannot be used.
    #[error("cannot use the certificate and the key: {0}")]
    Tls(#[from] rustls::Error),
}

impl TlsFiles {
    /// Reads the files into a configuration for TLS 1.2 and 1.3.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let builder = self.builder()?;
        let text = paths::read_text("--tls-key", &self.key)?;
        let key =
            PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|source| self::file(&self.key, source))?;
        Ok(Arc::new(builder.with_single_cert(certificates("--tls-cert", &self.certificate)?, key)?))
    }

    fn builder(&self) -> Result<Builder, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let Some(path) = &self.client_authorities else { return Ok(builder.with_no_client_auth()) };
        let mut roots = RootCertStore::empty();
        for authority in certificates("--tls-client-ca", path)? {
            roots.add(authority)?;
        }
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let verifier = verifier.map_err(|error| TlsError::Authorities(error.to_string()))?;
        Ok(builder.with_client_cert_verifier(verifier))
    }
}

type Builder = rustls::ConfigBuilder<ServerConfig, rustls::server::WantsServerCert>;

fn certificates(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = paths::read_text(option, path)?;
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|source| file(path, source))?;
    if certificates.is_empty() { Err(TlsError::Empty(path.to_path_buf())) } else { Ok(certificates) }
}

fn file(path: &Path, source: pem::Error) -> TlsError {
    TlsError::File { path: path.to_path_buf(), source }
}
