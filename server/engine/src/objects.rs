//! Objects written straight into the repository's database, without a process, and durable before a ref names them.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use gix::ObjectId;
use gix::objs::tree::EntryKind;
use gix::objs::{Find as _, Kind, Write as _, WriteTo as _};

use crate::error::{Error, Result};

/// Writes objects. Nothing may point to them before [`ObjectWriter::flush`]: a crash could leave a ref to an empty file.
#[derive(Debug)]
pub struct ObjectWriter {
    odb: gix::Repository,
    written: BTreeSet<ObjectId>,
}

impl ObjectWriter {
    /// A writer into the database of `odb`.
    pub fn new(odb: gix::Repository) -> Self {
        Self {
            odb,
            written: BTreeSet::new(),
        }
    }

    /// Writes a blob.
    pub fn write_blob(&mut self, content: &[u8]) -> Result<ObjectId> {
        self.write(Kind::Blob, content)
    }

    /// Writes a blob of exactly `size` bytes from `from`, without holding it in memory.
    pub fn write_blob_stream(&mut self, from: &mut dyn Read, size: u64) -> Result<ObjectId> {
        // The database does not compare what it read with the size that it wrote into the header.
        let mut counted = Counted { from, read: 0 };
        let id = self
            .odb
            .objects
            .write_stream(Kind::Blob, size, &mut counted)
            .map_err(|error| self.failed(&error))?;
        if counted.read != size {
            // Nothing names this object, and its id belongs to no content: it must not stay.
            let path = self.loose_path(id);
            std::fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
            return Err(Error::Busy {
                path: self.objects_dir(),
                problem: "a file changed its size while it was saved".to_owned(),
            });
        }
        self.written.insert(id);
        Ok(id)
    }

    /// The tree of `commit`.
    pub fn commit_tree(&self, commit: ObjectId) -> Result<ObjectId> {
        let commit = self
            .odb
            .find_commit(commit)
            .map_err(|error| self.unreadable(&error))?;
        Ok(commit
            .tree_id()
            .map_err(|error| self.unreadable(&error))?
            .detach())
    }

    /// Writes the tree that `base` (else an empty one) becomes by the removals and then the upserts. Paths have `/`
    /// between their parts; the caller has made sure that no part is one that git refuses.
    pub fn edit_tree(
        &mut self,
        base: Option<ObjectId>,
        upserts: &[(Vec<u8>, EntryKind, ObjectId)],
        removals: &[Vec<u8>],
    ) -> Result<ObjectId> {
        let hash = self.odb.object_hash();
        let mut buffer = Vec::new();
        let root = match base {
            Some(id) => self
                .odb
                .objects
                .try_find(&id, &mut buffer)
                .map_err(|error| self.unreadable(&error))?
                .and_then(|data| gix::objs::TreeRef::from_bytes(data.data, hash).ok())
                .map(gix::objs::Tree::from)
                .ok_or_else(|| Error::Internal(format!("the tree {id} cannot be read")))?,
            None => gix::objs::Tree::empty(),
        };
        let objects = self.odb.objects.clone();
        let mut editor = gix::objs::tree::Editor::new(root, &objects, hash);
        for path in removals {
            editor
                .remove(parts(path))
                .map_err(|error| Error::Internal(format!("a tree cannot be edited: {error}")))?;
        }
        for (path, kind, id) in upserts {
            editor
                .upsert(parts(path), *kind, *id)
                .map_err(|error| Error::Internal(format!("a tree cannot be edited: {error}")))?;
        }
        editor.write(|tree| {
            let mut bytes = Vec::new();
            tree.write_to(&mut bytes)
                .map_err(|error| Error::Internal(format!("a tree cannot be written: {error}")))?;
            self.write(Kind::Tree, &bytes)
        })
    }

    /// Writes a commit by the service itself, dated now.
    pub fn write_commit(
        &mut self,
        tree: ObjectId,
        parents: &[ObjectId],
        message: &str,
    ) -> Result<ObjectId> {
        let signature = gix::actor::Signature {
            name: "worktreed".into(),
            email: "worktreed@localhost".into(),
            time: gix::date::Time::new(jiff::Timestamp::now().as_second(), 0),
        };
        let mut message = message.trim_end().to_owned();
        message.push('\n');
        let commit = gix::objs::Commit {
            tree,
            parents: parents.iter().copied().collect(),
            author: signature.clone(),
            committer: signature,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        let mut bytes = Vec::new();
        commit
            .write_to(&mut bytes)
            .map_err(|error| Error::Internal(format!("a commit cannot be written: {error}")))?;
        self.write(Kind::Commit, &bytes)
    }

    /// Makes everything that was written survive a power cut: files first, then the directories that name them.
    pub fn flush(&mut self) -> Result<()> {
        let mut directories = BTreeSet::new();
        for id in std::mem::take(&mut self.written) {
            let path = self.loose_path(id);
            match File::open(&path) {
                Ok(file) => file
                    .sync_all()
                    .map_err(|error| Error::io("sync", &path, error))?,
                // Already there in a pack: durable since then.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::io("open", &path, error)),
            }
            directories.extend(path.parent().map(ToOwned::to_owned));
        }
        if !directories.is_empty() {
            directories.insert(self.objects_dir());
        }
        for directory in directories {
            sync_directory(&directory)?;
        }
        Ok(())
    }

    /// Makes the names of objects that git itself wrote durable: it syncs files where it is told to, directories never.
    pub fn sync_directories(&self) -> Result<()> {
        let objects = self.objects_dir();
        let failed = |error| Error::io("list", &objects, error);
        for entry in std::fs::read_dir(&objects).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name().len() == 2 {
                sync_directory(&entry.path())?;
            }
        }
        sync_directory(&objects)
    }

    fn write(&mut self, kind: Kind, content: &[u8]) -> Result<ObjectId> {
        let id = self
            .odb
            .objects
            .write_buf(kind, content)
            .map_err(|error| self.failed(&error))?;
        self.written.insert(id);
        Ok(id)
    }

    fn objects_dir(&self) -> PathBuf {
        self.odb.objects.store_ref().path().to_owned()
    }

    fn loose_path(&self, id: ObjectId) -> PathBuf {
        let hex = id.to_hex().to_string();
        self.objects_dir().join(&hex[..2]).join(&hex[2..])
    }

    fn failed(&self, error: &(dyn std::error::Error + 'static)) -> Error {
        let mut cause = Some(error);
        while let Some(current) = cause {
            if let Some(io) = current.downcast_ref::<std::io::Error>() {
                let same = io
                    .raw_os_error()
                    .map_or_else(|| io.kind().into(), std::io::Error::from_raw_os_error);
                return Error::io("write an object into", &self.objects_dir(), same);
            }
            cause = current.source();
        }
        let text = error.to_string();
        if text.contains("No space left") {
            return Error::DiskFull {
                path: self.objects_dir(),
            };
        }
        Error::Internal(format!("an object cannot be written: {text}"))
    }

    fn unreadable(&self, error: &dyn std::fmt::Display) -> Error {
        Error::Internal(format!(
            "an object of {} cannot be read: {error}",
            self.objects_dir().display()
        ))
    }
}

fn parts(path: &[u8]) -> impl Iterator<Item = &gix::bstr::BStr> {
    path.split(|&byte| byte == b'/').map(Into::into)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &std::path::Path) -> Result<()> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| Error::io("sync", path, error))
}

struct Counted<'a> {
    from: &'a mut dyn Read,
    read: u64,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}
