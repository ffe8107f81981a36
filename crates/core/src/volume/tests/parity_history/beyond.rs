//! Random histories with any number of losses: an error or the right value, never anything else.

use super::*;

impl Play {
    /// Brings all members back, which are rebuilt if not too many were missing, and writes all.
    pub(super) fn end_beyond(mut self) -> Result<(), TestCaseError> {
        self.failing.clear();
        self.drain()?;
        self.world.bad.clear();
        let whole = self.read_blocks()?;
        if self.request_and_settle(RequestKind::Flush, 0, 0) == Ok(()) {
            prop_assert!(whole, "a flush succeeds only if all is there");
        }
        let missing = |play: &Play| {
            let is_missing = |member: &u16| play.state(*member) != MemberState::InSync;
            (0..play.members()).filter(is_missing).count()
        };
        let tolerated = self.world.volume.map().tolerated_failures();
        let can_rebuild = missing(&self) <= tolerated;
        for member in 0..self.members() {
            self.bring_back();
            let size = self.world.volume.members()[MemberIndex(member)].config.size_bytes;
            if let MemberState::Rebuilding { recovered_bytes } = self.state(member) {
                let kind = RequestKind::Rebuild(MemberIndex(member));
                let length = size - recovered_bytes;
                let result = self.request_and_settle(kind, recovered_bytes, length);
                prop_assert!(result == Ok(()) || !can_rebuild, "member {member}: {result:?}");
            }
        }
        prop_assert!(missing(&self) == 0 || !can_rebuild, "all are rebuilt");
        let is_whole = self.read_blocks()?;
        prop_assert!(is_whole || !whole || !can_rebuild, "a rebuild loses nothing");
        if missing(&self) > 0 {
            return Ok(());
        }
        let stripe = self.world.volume.map().full_stripe(0).unwrap().length();
        let length = (BLOCKS * BLOCK).next_multiple_of(stripe);
        let id = self.requests + 1;
        self.written.insert(id, 0..length / BLOCK);
        self.world.buffers.insert(id, (0..length / BLOCK).map(|block| (block, id)).collect());
        prop_assert_eq!(self.request_and_settle(RequestKind::Write, 0, length), Ok(()));
        self.settled.extend((0..BLOCKS).map(|block| (block, id)));
        prop_assert_eq!(self.request_and_settle(RequestKind::Flush, 0, 0), Ok(()));
        prop_assert_eq!(self.request_and_settle(RequestKind::Scrub, 0, length), Ok(()));
        check_parities(&self.world, 0..BLOCKS);
        self.read_back()
    }

    /// The result of a request when nothing else is under way.
    fn request_and_settle(
        &mut self,
        kind: RequestKind,
        offset: u64,
        length: u64,
    ) -> Result<(), VolumeError> {
        self.requests += 1;
        self.world.request(self.requests, kind, offset, length);
        self.world.settle();
        let (request, result) = self.world.reply().unwrap();
        assert_eq!(request, self.requests);
        result
    }

    /// Reads block by block, and returns true if all can be read.
    fn read_blocks(&mut self) -> Result<bool, TestCaseError> {
        let mut is_whole = true;
        for block in 0..BLOCKS {
            match self.request_and_settle(RequestKind::Read, block * BLOCK, BLOCK) {
                Err(_) => is_whole = false,
                Ok(()) => {
                    let value = self.world.buffers[&self.requests][&block];
                    let settled = self.settled.get(&block).copied().unwrap_or(0);
                    let is_right = self.is_right(block, value, settled);
                    prop_assert!(is_right, "{value:#x} at {block}, after {settled}");
                }
            }
        }
        Ok(is_whole)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A rebuild loses nothing that is there, and ends.
    #[test]
    fn beyond_its_losses_a_request_fails_or_is_right(
        (layout, members) in select(LAYOUTS),
        level in select(&[RmwLevel::Never, RmwLevel::FewerReads, RmwLevel::NoMoreReads][..]),
        history in prop::collection::vec(action(), 1..160),
    ) {
        let mut play = play(layout, members, level, true);
        for action in history {
            play.act(action);
            play.check_replies()?;
        }
        play.end_beyond()?;
    }
}
