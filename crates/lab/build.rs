//! Hash of the sources that decide results, for `experiment/build.rs`.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// FNV-1a with 128 bits.
const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Folders of sources, each with its crate.
const SOURCES: [(&str, &str); 6] = [
    ("core", "src"),
    ("disk", "src"),
    ("trace", "src"),
    ("program", "src"),
    ("sim", "src"),
    ("lab", "src/experiment"),
];

fn main() {
    let own = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let crates = own.parent().expect("a crate is in a folder");
    let version = env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let mut state = OFFSET_BASIS;
    for (name, folder) in SOURCES {
        // In a registry the folder has the name of the package.
        let places = [name.to_owned(), format!("mirrorball-{name}-{version}")];
        let place = places.iter().map(|place| crates.join(place).join(folder));
        let Some(place) = place.into_iter().find(|place| place.is_dir()) else { continue };
        println!("cargo::rerun-if-changed={}", place.display());
        state = absorb_folder(state, &place, &format!("{name}/{folder}"));
    }
    println!("cargo::rustc-env=MIRRORBALL_SOURCES={state:032x}");
}

fn absorb(state: u128, bytes: &[u8]) -> u128 {
    let length = (bytes.len() as u64).to_le_bytes();
    let bytes = length.iter().chain(bytes);
    bytes.fold(state, |state, &byte| (state ^ u128::from(byte)).wrapping_mul(PRIME))
}

/// Takes in the name and the bytes of each file below a folder, in alphabetical order.
fn absorb_folder(mut state: u128, folder: &Path, name: &str) -> u128 {
    let entries = fs::read_dir(folder).expect("a folder of sources can be read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    for file in names {
        let (path, name) = (folder.join(&file), format!("{name}/{file}"));
        state = if path.is_dir() {
            absorb_folder(state, &path, &name)
        } else {
            let bytes = fs::read(&path).expect("a source can be read");
            absorb(absorb(state, name.as_bytes()), &bytes)
        };
    }
    state
}
