//! Names of the devices of a trace, each with a number.

use mirrorball_core::diagnostic::Diagnostic;
use std::collections::HashMap;

/// Maximum number of devices: the names are the only thing that grows with a trace.
const DEVICES_MAX: usize = 1 << 16;
/// Maximum length of a name.
const NAME_BYTES_MAX: usize = 256;

/// The names met so far, numbered in the order of appearance.
#[derive(Debug, Default)]
pub(crate) struct DeviceNames {
    names: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, u32>,
    /// The number that was asked for last: most traces repeat it.
    last: u32,
}

impl DeviceNames {
    /// The number of a name, which is added if it is new.
    pub(crate) fn number(&mut self, name: &[u8]) -> Result<u32, Diagnostic> {
        if self.names.get(self.last as usize).is_some_and(|known| **known == *name) {
            return Ok(self.last);
        }
        self.last = match self.numbers.get(name) {
            Some(&number) => number,
            None => self.add(name)?,
        };
        Ok(self.last)
    }

    fn add(&mut self, name: &[u8]) -> Result<u32, Diagnostic> {
        if name.len() > NAME_BYTES_MAX {
            let message = format!("the name of the device has {} characters", name.len());
            return Err(Diagnostic::new(message).with_help("is this file in another format?"));
        }
        if self.names.len() == DEVICES_MAX {
            let message = format!("the trace has more than {DEVICES_MAX} devices");
            let help = "select the lines of some devices, for example with grep, and read those";
            return Err(Diagnostic::new(message).with_help(help));
        }
        let number = self.names.len() as u32;
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        Ok(number)
    }

    /// The name of a device. Bytes that are no UTF-8 are replaced.
    pub(crate) fn name(&self, number: u32) -> String {
        String::from_utf8_lossy(&self.names[number as usize]).into_owned()
    }

    /// All names, in the order of their numbers.
    pub(crate) fn all(&self) -> impl Iterator<Item = String> {
        (0..self.names.len() as u32).map(|number| self.name(number))
    }
}
