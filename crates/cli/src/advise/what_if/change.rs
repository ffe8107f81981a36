//! A change of the disks, the layout or the read-ahead of an array, as `--what-if` takes it.

use super::EACH;
use mirrorball_core::geometry::{ArrayLayout, LayoutKind};
use mirrorball_core::units::{KIB, parse_bytes};
use mirrorball_host::detect::model_of_product;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArrayChange {
    /// Another disk in the place of a member.
    Replace { devid: u64, disk: NewDisk },
    /// One more disk.
    Add(NewDisk),
    /// Another layout of the same disks, or another profile of btrfs.
    Layout(String),
    /// Another read-ahead, in KiB.
    ReadAhead(u64),
    /// Each sensible single change.
    Each,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewDisk {
    /// As it is written: the model or product, and behind a colon its size.
    text: String,
    pub(super) model: String,
    /// Size; that of the member in whose place it is, or of the smallest, if not given.
    pub(super) bytes: Option<u64>,
}

impl NewDisk {
    /// A disk of a model, as large as another one.
    pub(super) fn new(model: &str) -> NewDisk {
        NewDisk { text: model.to_owned(), model: model.to_owned(), bytes: None }
    }
}

impl FromStr for NewDisk {
    type Err = String;

    fn from_str(text: &str) -> Result<NewDisk, String> {
        let (model, size) = match text.rsplit_once(':') {
            Some((model, size)) if !text.ends_with(".toml") => (model, Some(size)),
            _ => (text, None),
        };
        let bytes = size.map(|size| match parse_bytes(size) {
            Ok(bytes @ 1..) => Ok(bytes),
            _ => Err(format!("`{size}` is no size: write for example {model}:8TB, or {model}")),
        });
        let (model, of_product) = model_of_product(model).unwrap_or((model, None));
        let bytes = bytes.transpose()?.or(of_product);
        Ok(NewDisk { text: text.to_owned(), model: model.to_owned(), bytes })
    }
}

impl FromStr for ArrayChange {
    type Err = String;

    fn from_str(text: &str) -> Result<ArrayChange, String> {
        let expected = "write replace=DEVID:MODEL, add=MODEL, layout=NAME or read-ahead=SIZE, for \
                        example replace=1:ssd-sata-plp or replace=1:ssd-sata-plp:2TB, or nothing \
                        behind --what-if as the last option";
        match text.split_once('=') {
            Some(("add", disk)) if !disk.is_empty() => Ok(ArrayChange::Add(disk.parse()?)),
            Some(("layout", name)) if !name.is_empty() => Ok(ArrayChange::Layout(name.to_owned())),
            Some(("read-ahead", size)) => match parse_bytes(size).map(|bytes| bytes / KIB) {
                Ok(kib @ 4..=1_048_576) => Ok(ArrayChange::ReadAhead(kib)),
                _ => Err(format!("`{size}` is no read-ahead: write 4KiB to 1GiB")),
            },
            None if text == EACH => Ok(ArrayChange::Each),
            Some(("add", _)) => Err(format!("the model is missing; {expected}")),
            Some(("replace", change)) => match change.split_once(':') {
                Some((devid, disk)) if !disk.is_empty() => {
                    let devid = devid.parse().map_err(|_| {
                        format!("`{devid}` is not a devid, the number of a member; {expected}")
                    })?;
                    Ok(ArrayChange::Replace { devid, disk: disk.parse()? })
                }
                _ => Err(format!("the model is missing; {expected}")),
            },
            _ => Err(expected.to_owned()),
        }
    }
}

impl ArrayChange {
    pub(super) fn written(&self) -> String {
        match self {
            ArrayChange::Replace { devid, disk } => format!("replace={devid}:{}", disk.text),
            ArrayChange::Add(disk) => format!("add={}", disk.text),
            ArrayChange::Layout(name) => format!("layout={name}"),
            ArrayChange::ReadAhead(kib) => format!("read-ahead={kib}KiB"),
            ArrayChange::Each => EACH.to_owned(),
        }
    }

    /// The change, and the steps that it takes if md cannot make it to an array of this layout.
    pub(in crate::advise) fn described(&self, layout: ArrayLayout) -> String {
        match (self, layout.kind()) {
            (ArrayChange::Add(_), LayoutKind::MdRaid10Far) => {
                format!("{self} (md cannot reshape a far layout: create the array again)")
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for ArrayChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayChange::Replace { devid, disk } => {
                let size = if disk.bytes.is_none() { " of the same size" } else { "" };
                write!(formatter, "devid {devid} is replaced by {}{size}", disk.text)
            }
            ArrayChange::Add(disk) => {
                let size =
                    if disk.bytes.is_none() { " of the size of the smallest member" } else { "" };
                write!(formatter, "{}{size} is added", disk.text)
            }
            ArrayChange::Layout(name) => write!(formatter, "the disks are laid out as {name}"),
            ArrayChange::ReadAhead(kib) => write!(formatter, "the read-ahead is {kib} KiB"),
            ArrayChange::Each => write!(formatter, "each single change"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ArrayChange, NewDisk};

    #[test]
    fn changes_are_read_and_mistakes_named() {
        let replace = |disk| ArrayChange::Replace { devid: 7, disk };
        let disk = NewDisk::new("nvme-gen3");
        assert_eq!("replace=7:nvme-gen3".parse(), Ok(replace(disk.clone())));
        let text = "nvme-gen3:8TB".to_owned();
        let disk = NewDisk { text, bytes: Some(8_000_000_000_000), ..disk };
        assert_eq!("replace=7:nvme-gen3:8TB".parse(), Ok(replace(disk)));
        for (text, bytes) in [("WD40EFRX", 4_000_000_000_000), ("WD40EFRX:2TB", 2_000_000_000_000)]
        {
            let (text, model) = (text.to_owned(), "hdd-5k4-4tb".to_owned());
            let disk = NewDisk { text, model, bytes: Some(bytes) };
            assert_eq!(format!("add={}", disk.text).parse(), Ok(ArrayChange::Add(disk)));
        }
        assert_eq!("add=a/b:c.toml".parse(), Ok(ArrayChange::Add(NewDisk::new("a/b:c.toml"))));
        assert_eq!("read-ahead=2MiB".parse(), Ok(ArrayChange::ReadAhead(2048)));
        for (text, message) in [
            ("", "write replace=DEVID:MODEL"),
            ("remove=1", "write replace=DEVID:MODEL"),
            ("add=", "the model is missing"),
            ("read-ahead=1", "`1` is no read-ahead"),
            ("replace=1", "the model is missing"),
            ("replace=1:", "the model is missing"),
            ("replace=1:nvme-gen3:big", "`big` is no size: write for example nvme-gen3:8TB"),
            ("replace=sda:nvme-gen3", "`sda` is not a devid"),
        ] {
            let error = text.parse::<ArrayChange>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }
}
