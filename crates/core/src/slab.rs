//! A vector with holes: what is in flight, found by a small number and reused without allocation.

/// Values kept under keys that are reused once their value is removed.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps `value` and returns its key.
    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        let mut inserted = 0;
        self.insert_with(|key| {
            inserted = key;
            value
        });
        inserted
    }

    /// Keeps the value that `make` makes for the key it will have, and returns a view of it.
    #[inline]
    pub fn insert_with(&mut self, make: impl FnOnce(u32) -> T) -> &mut T {
        let key = match self.free.pop() {
            Some(key) => key,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[key as usize].insert(make(key))
    }

    /// Removes the value under `key`, or returns `None` where there is none.
    #[inline]
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let value = self.slots.get_mut(key as usize)?.take();
        if value.is_some() {
            self.free.push(key);
        }
        value
    }

    /// The value under `key`, or `None` where there is none.
    pub fn find(&self, key: u32) -> Option<&T> {
        self.slots.get(key as usize)?.as_ref()
    }

    /// The value under `key`.
    ///
    /// # Panics
    /// If there is none: keys come from [`Slab::insert`].
    #[inline]
    pub fn get_mut(&mut self, key: u32) -> &mut T {
        self.slots[key as usize].as_mut().expect("the key of a value that was not removed")
    }

    /// The value under `key`.
    ///
    /// # Panics
    /// If there is none.
    #[inline]
    pub fn get(&self, key: u32) -> &T {
        self.slots[key as usize].as_ref().expect("the key of a value that was not removed")
    }

    /// Every key with its value, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let occupied = |(key, slot): (usize, _)| Option::map(slot, |value| (key as u32, value));
        self.slots.iter().map(Option::as_ref).enumerate().filter_map(occupied)
    }

    /// As [`Slab::iter`], to change the values.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten()
    }

    /// How many values there are.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_reused_and_holes_skipped() {
        let mut slab = Slab::default();
        let keys = ["a", "b", "c"].map(|value| slab.insert(value));
        assert_eq!(slab.remove(keys[1]), Some("b"));
        assert_eq!(slab.remove(keys[1]), None, "removed once");
        assert_eq!(slab.iter().map(|(_, value)| *value).collect::<String>(), "ac");
        assert_eq!((slab.insert("d"), slab.len()), (keys[1], 3));
        assert_eq!(*slab.get(keys[1]), "d");
        let mut given = 0;
        *slab.insert_with(|key| {
            given = key;
            "e"
        }) = "f";
        assert_eq!(*slab.get(given), "f");
    }
}
