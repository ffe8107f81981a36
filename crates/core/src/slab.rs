//! A slab: a vector whose slots are reused, so that objects in flight are found by a small number.
//!
//! Each slab has a key type of its own, declared by [`slab_key!`](crate::slab_key): a key of one
//! slab does not compile as a key of another. Slots are reused without allocation. A key is valid
//! until its value is removed; afterwards the same key may name another value.

use std::marker::PhantomData;

/// The key of a [`Slab`]: a slot number in a type of its own.
pub trait SlabKey: Copy {
    fn from_slot(slot: u32) -> Self;

    fn slot(self) -> u32;
}

/// Declares the key type of a slab: `slab_key! { /// Names a client. pub(crate) struct ClientKey;
/// }`
#[macro_export]
macro_rules! slab_key {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        $visibility struct $name(u32);

        impl $crate::slab::SlabKey for $name {
            #[inline]
            fn from_slot(slot: u32) -> $name {
                $name(slot)
            }

            #[inline]
            fn slot(self) -> u32 {
                self.0
            }
        }
    };
}

/// Values stored under keys of type `K`. A slot is reused once its value is removed.
#[derive(Clone, Debug)]
pub struct Slab<K, V> {
    slots: Vec<Option<V>>,
    free: Vec<u32>,
    keys: PhantomData<fn() -> K>,
}

impl<K, V> Default for Slab<K, V> {
    fn default() -> Slab<K, V> {
        Slab { slots: Vec::new(), free: Vec::new(), keys: PhantomData }
    }
}

impl<K: SlabKey, V> Slab<K, V> {
    /// Stores `value` and returns its key.
    #[inline]
    pub fn insert(&mut self, value: V) -> K {
        let mut inserted = K::from_slot(0);
        self.insert_with(|key| {
            inserted = key;
            value
        });
        inserted
    }

    /// Stores the value that `make` returns for its future key, and returns a reference to it.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce(K) -> V) -> &mut V {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize].insert(make(K::from_slot(slot)))
    }

    /// Removes and returns the value under `key`, or returns `None` if there is none.
    #[inline]
    pub fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.slots.get_mut(key.slot() as usize)?;
        if slot.is_some() {
            self.free.push(key.slot());
        }
        slot.take()
    }

    /// Removes the value under `key`, which may be large. Panics if the value was removed.
    #[inline(always)]
    pub fn discard(&mut self, key: K) {
        let slot = &mut self.slots[key.slot() as usize];
        assert!(slot.is_some(), "the value of this key was not removed");
        *slot = None;
        self.free.push(key.slot());
    }

    /// The value under `key`, or `None` if there is none.
    #[inline]
    pub fn find(&self, key: K) -> Option<&V> {
        self.slots.get(key.slot() as usize)?.as_ref()
    }

    /// The value under `key`, or `None` if there is none.
    #[inline]
    pub fn find_mut(&mut self, key: K) -> Option<&mut V> {
        self.slots.get_mut(key.slot() as usize)?.as_mut()
    }

    /// The value under `key`. Panics if the value was removed.
    #[inline]
    pub fn get_mut(&mut self, key: K) -> &mut V {
        self.slots[key.slot() as usize].as_mut().expect("the value of this key was not removed")
    }

    /// The value under `key`. Panics if the value was removed.
    #[inline]
    pub fn get(&self, key: K) -> &V {
        self.slots[key.slot() as usize].as_ref().expect("the value of this key was not removed")
    }

    /// The values under two keys. Panics if the keys are equal, or a value was removed.
    pub fn get_two_mut(&mut self, first: K, second: K) -> [&mut V; 2] {
        let slots = [first.slot() as usize, second.slot() as usize];
        let slots = self.slots.get_disjoint_mut(slots).expect("two keys of values");
        slots.map(|slot| slot.as_mut().expect("the value of this key was not removed"))
    }

    /// Each key with its value, in the order of keys.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        (0..)
            .zip(&self.slots)
            .filter_map(|(slot, value)| Some((K::from_slot(slot), value.as_ref()?)))
    }

    /// The values, in the order of keys.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.slots.iter_mut().flatten()
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns true if the slab holds no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::slab_key! {
        struct LetterKey;
    }

    #[test]
    fn keys_are_reused_and_free_slots_skipped() {
        let mut slab = Slab::<LetterKey, &str>::default();
        let keys = ["a", "b", "c"].map(|value| slab.insert(value));
        assert_eq!(slab.remove(keys[1]), Some("b"));
        assert_eq!(slab.remove(keys[1]), None, "it was removed before");
        assert_eq!(slab.iter().map(|(_, value)| *value).collect::<String>(), "ac");
        assert_eq!((slab.insert("d"), slab.len()), (keys[1], 3));
        assert_eq!(*slab.get(keys[1]), "d");
        assert_eq!(slab.find_mut(keys[1]).map(|value| *value), Some("d"));
        assert_eq!(slab.find_mut(LetterKey(3)), None);
        let [first, second] = slab.get_two_mut(keys[2], keys[0]);
        assert_eq!((*first, *second), ("c", "a"));
        let mut given = keys[0];
        *slab.insert_with(|key| {
            given = key;
            "e"
        }) = "f";
        assert_eq!(*slab.get(given), "f");
        slab.discard(given);
        assert_eq!(slab.find(given), None);
        assert_eq!(slab.insert("g"), given);
    }
}
