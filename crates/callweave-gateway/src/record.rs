//! The raw traffic of upstreams, written to files that `callweave decode` reads. It is only written on request: it is
//! the complete content of conversations.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Writes recordings into a folder, if there is one.
pub(crate) struct ResponseRecorder {
    folder: Option<PathBuf>,
    next: AtomicU64,
}

/// The response of an upstream while it is written.
pub(crate) struct OpenRecording(File);

impl ResponseRecorder {
    /// Makes the folder, if it is not there: nobody else may look into it.
    pub(crate) fn new(folder: Option<PathBuf>) -> io::Result<Self> {
        if let Some(folder) = &folder {
            let mut builder = DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(folder)?;
        }
        Ok(Self { folder, next: AtomicU64::new(1) })
    }

    /// Writes a request, and opens a file for its response: `0001-<id>.request.json` and `0001-<id>.answer`.
    pub(crate) fn begin(&self, id: &str, request: &[u8]) -> Option<OpenRecording> {
        let folder = self.folder.as_ref()?;
        let plain: String =
            id.chars().filter(|own| own.is_ascii_alphanumeric() || *own == '-').take(64).collect();
        let name = format!("{:04}-{plain}", self.next.fetch_add(1, Relaxed));
        let open = |ending: &str| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true);
            // A conversation is readable for its owner only, in any folder.
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            options.open(folder.join(format!("{name}.{ending}")))
        };
        let begun = open("request.json").and_then(|mut file| file.write_all(request));
        match begun.and_then(|()| open("answer")) {
            Ok(file) => Some(OpenRecording(file)),
            Err(error) => {
                tracing::warn!(%error, "a recording cannot be written");
                None
            }
        }
    }
}

impl OpenRecording {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        // Serving must not fail because a disk is full.
        let _ = self.0.write_all(bytes);
    }
}
