//! Files and standard input, read as bytes come.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::progress::Progress;

/// A file that is read, or standard input.
pub(crate) struct Input {
    reader: Box<dyn Read>,
    progress: Option<Progress>,
}

/// Enough that a read costs little beside what is done with it; a pipe gives less at a time.
pub(crate) const CHUNK: usize = 64 << 10;

impl Input {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if path == Path::new("-") {
            let stdin = io::stdin();
            if stdin.is_terminal() {
                anstream::eprintln!("reading from the terminal; end with ctrl-d, or name a file");
            }
            return Ok(Self { reader: Box::new(stdin.lock()), progress: None });
        }
        Self::file(path)
    }

    /// Opens a file, whatever its name.
    pub(crate) fn file(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let metadata = file.metadata().with_context(cannot)?;
        if metadata.is_dir() {
            bail!("cannot read {}: it is a directory; name a file in it", path.display());
        }
        Ok(Self { reader: Box::new(file), progress: Progress::of(metadata.len()) })
    }

    /// Gives each piece to `take` as it comes.
    pub(crate) fn for_each(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let length = match self.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("cannot read the input"),
            };
            take(&buffer[..length])?;
        }
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        if let Some(progress) = &mut self.progress {
            progress.advance(length);
        }
        Ok(length)
    }
}
