//! The gateway: everything that requests share.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use callweave::exchange::SharedState;
use callweave::exchange::store::ExchangeStore;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::CertificateDer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::config::{Config, ConfigProblem, Environment};
use crate::failure::RequestFailure;
use crate::in_flight::{BytesInFlight, crowded};
use crate::keys::ClientKeys;
use crate::metrics::GatewayMetrics;
use crate::models::ListedModels;
use crate::pages::AllowedPages;
use crate::record::ResponseRecorder;
use crate::routes::RouteTable;
use crate::store::MemoryStore;
use crate::upstream::{HttpClient, authorities};

/// A gateway that can serve.
pub struct Gateway {
    pub(crate) config: Config,
    pub(crate) routes: RouteTable,
    pub(crate) client: HttpClient,
    pub(crate) keys: ClientKeys,
    pub(crate) pages: AllowedPages,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) store: Arc<dyn ExchangeStore>,
    /// State of all exchanges.
    pub(crate) shared: Arc<SharedState>,
    pub(crate) recorder: ResponseRecorder,
    pub(crate) listed: ListedModels,
    /// Doubts about the configuration.
    pub(crate) warnings: Vec<String>,
    /// The bytes of all requests.
    pub(crate) in_flight: Arc<BytesInFlight>,
    room: Arc<Semaphore>,
    stage: watch::Sender<ShutdownStage>,
}

/// The authorities that are trusted besides the usual ones.
fn trusted(
    config: &Config,
    environment: &Environment<'_>,
) -> Result<Vec<CertificateDer<'static>>, ConfigProblem> {
    if let Some(file) = &config.ca_file {
        let read = authorities(file);
        return read.map_err(|error| config.problem("ca_file", format!("{}: {error}", file.display())));
    }
    // A variable is there for many programs, most of which it does not concern.
    let file = environment.get("SSL_CERT_FILE").map(PathBuf::from);
    let read = file.as_deref().map(authorities).transpose().inspect_err(|error| {
        tracing::warn!(%error, "the certificates of SSL_CERT_FILE cannot be read");
    });
    Ok(read.unwrap_or_default().unwrap_or_default())
}

/// The progress of a gateway's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShutdownStage {
    /// It serves.
    Serving,
    /// It takes nothing new.
    Draining,
    /// Requests still under way end now.
    Closing,
}

impl Gateway {
    /// A gateway of that configuration, with keys from the environment.
    pub fn new(config: Config, environment: &Environment<'_>) -> Result<Arc<Self>, ConfigProblem> {
        let store = Arc::new(MemoryStore::new(config.store.clone()));
        Self::with_store(config, environment, store)
    }

    /// The same with a store of another kind.
    pub fn with_store(
        config: Config,
        environment: &Environment<'_>,
        store: Arc<dyn ExchangeStore>,
    ) -> Result<Arc<Self>, ConfigProblem> {
        config.check()?;
        environment.check()?;
        let unrecorded = |error| {
            let folder = config.record.as_deref().unwrap_or(Path::new("")).display();
            config.problem("record", format!("{folder} cannot be made a folder for recordings: {error}"))
        };
        let recorder = ResponseRecorder::new(config.record.clone()).map_err(unrecorded)?;
        let trusted = trusted(&config, environment)?;
        let client = HttpClient::new(&config, trusted);
        let mut seal_key = [0; 16];
        let filled = SystemRandom::new().fill(&mut seal_key);
        filled.map_err(|_| ConfigProblem::new("the system has no random numbers"))?;
        let shared = Arc::new(SharedState::with_store(Arc::clone(&store), seal_key));
        let routes = RouteTable::new(&config, environment, &shared);
        Ok(Arc::new(Self {
            routes: routes.map_err(|error| ConfigProblem::new(error.to_string()))?,
            shared,
            client: client.map_err(|error| ConfigProblem::new(format!("TLS cannot be used: {error}")))?,
            keys: ClientKeys::new(&config.client_keys),
            pages: AllowedPages::new(&config),
            warnings: config.warnings(environment),
            metrics: GatewayMetrics::default(),
            store,
            recorder,
            listed: ListedModels::default(),
            in_flight: BytesInFlight::new(config.limits.in_flight),
            room: Arc::new(Semaphore::new(config.limits.concurrent)),
            stage: watch::Sender::new(ShutdownStage::Serving),
            config,
        }))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Room for one more response.
    pub(crate) fn room(&self) -> Result<OwnedSemaphorePermit, RequestFailure> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        room.map_err(|_| crowded("too many answers are under way (limits.concurrent)"))
    }

    /// Returns doubts about a configuration that can be served; a line each.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it would refuse one more request for lack of room.
    pub(crate) fn is_overloaded(&self) -> bool {
        self.room.available_permits() == 0 || !self.in_flight.has_room()
    }

    /// Waits until nothing is waited for any more.
    pub(crate) fn closing(self: &Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let gateway = Arc::clone(self);
        async move {
            let mut stage = gateway.stage.subscribe();
            // A gateway that is gone has nothing to close.
            if stage.wait_for(|stage| *stage == ShutdownStage::Closing).await.is_err() {
                std::future::pending().await
            }
        }
    }

    pub(crate) fn enter(&self, stage: ShutdownStage) {
        self.stage.send_replace(stage);
    }

    /// Whether nothing is waited for any more.
    pub(crate) fn is_closing(&self) -> bool {
        *self.stage.borrow() == ShutdownStage::Closing
    }

    /// Whether it takes new requests.
    pub(crate) fn is_ready(&self) -> bool {
        *self.stage.borrow() == ShutdownStage::Serving
    }
}
