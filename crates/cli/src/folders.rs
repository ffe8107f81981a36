//! Folders that a command creates if they are missing.

use anyhow::{Result, anyhow, bail};
use std::fs;
use std::path::Path;

/// Creates a folder, and those above it, unless it is there. Fails if the path, or a part of it, is
/// a file, or the system refuses.
pub(crate) fn create(path: &Path) -> Result<()> {
    let shown = path.display();
    if let Some(file) = path.ancestors().find(|part| part.exists()).filter(|part| !part.is_dir()) {
        let file = file.display();
        bail!("cannot create the folder {shown}: {file} is a file\n  help: give another path");
    }
    fs::create_dir_all(path).map_err(|error| {
        anyhow!(
            "cannot create the folder {shown}: {error}\n  help: give a path that you may write to"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::create;

    #[test]
    fn a_file_in_place_of_a_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for path in [file.clone(), file.join("below")] {
            let error = create(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("{} is a file", file.display())), "{error}");
        }
        create(&folder.path().join("a/b")).unwrap();
        assert!(folder.path().join("a/b").is_dir());
    }
}
