//! How the volume asks its gate and, with parity, its stripes: the facts that they are shown, and
//! the consequences of their answers.

use super::Volume;
use super::complete::Owner;
use super::gate::{Array, Gate, GateAnswer, GateEvent, MetadataIo, PieceView, Released};
use super::member_states::MemberStates;
use super::piece::PieceKey;
use super::plan::PiecePlan;
use super::plan::{PlanTarget, TargetSet};
use super::stripe::{StripeBuffer, StripeContext, StripeOwner, StripePlace, StripeStep, Stripes};
use crate::io::{IoId, MemberIo, Purpose, ReadRole, Request, RequestId};
use crate::units::Nanos;

impl<G: Gate> Volume<G> {
    #[inline]
    pub fn gate(&self) -> Option<&G> {
        if G::EXISTS { self.gate.as_deref() } else { None }
    }

    /// The states of the members, as the gate is shown them.
    pub fn states(&self) -> &MemberStates {
        &self.states
    }

    /// Has `change` act on the gate, and continues what the gate releases. Returns `None` if there
    /// is no gate.
    pub fn change_gate<R>(
        &mut self,
        change: impl FnOnce(&mut G, &mut Array<'_>) -> R,
    ) -> Option<R> {
        let result = self.ask_gate(change);
        self.continue_released();
        result
    }

    #[inline]
    pub(super) fn has_gate(&self) -> bool {
        G::EXISTS && self.gate.is_some()
    }

    /// Calls the gate, if there is one, and notifies the policy if that changed the state of a
    /// member.
    #[inline]
    pub(super) fn ask_gate<R>(
        &mut self,
        ask: impl FnOnce(&mut G, &mut Array<'_>) -> R,
    ) -> Option<R> {
        let gate = self.gate.as_deref_mut().filter(|_| G::EXISTS)?;
        let version = self.states.version();
        let mut array = Array { map: self.layout.map(), states: &mut self.states };
        let result = ask(gate, &mut array);
        if self.states.version() != version {
            self.notify_members_change();
        }
        Some(result)
    }

    #[inline]
    pub(super) fn report(&mut self, event: GateEvent<'_>) {
        self.ask_gate(|gate, array| gate.on_event(event, array));
    }

    /// Returns true if data have checksums.
    pub fn has_checksums(&self) -> bool {
        self.gate().is_some_and(|gate| gate.unit_bytes() > 0)
    }

    /// Continues what the gate held and has released.
    #[inline]
    pub(super) fn continue_released(&mut self) {
        while G::EXISTS
            && let Some(released) = self.gate.as_mut().and_then(|gate| gate.poll_released())
        {
            match released {
                Released::Request(key, result) => self.cut_released(key, result),
                Released::Start(key) => self.issue_first(key),
                Released::End(key) => self.finish(key),
                Released::Fail(key) => self.fail_piece(key),
            }
        }
    }

    /// Returns the piece as its gate sees it.
    pub(super) fn view(&self, key: PieceKey) -> PieceView {
        let (piece, request) = self.requests.piece_and_request(key);
        PieceView {
            key,
            kind: piece.kind,
            plan: piece.plan.clone(),
            request: piece.request,
            request_kind: request.kind,
            request_offset: request.offset,
            has_lock: piece.has_lock,
            written: piece.written(),
            marks: piece.marks,
        }
    }

    /// Asks the gate whether a piece may start.
    pub(super) fn admit(&mut self, key: PieceKey) -> GateAnswer {
        let mut view = self.view(key);
        let admission = self.ask_gate(|gate, array| gate.admit(&mut view, array));
        self.requests.piece_mut(key).marks = view.marks;
        admission.unwrap_or(GateAnswer::Go)
    }

    /// Where a piece that begins at `offset` ends at the latest.
    #[inline]
    pub(super) fn piece_end(&self, offset: u64) -> u64 {
        self.gate().map_or(u64::MAX, |gate| gate.piece_end(offset))
    }

    /// Returns true if a piece is read from its first mirror only, because mirrors differ.
    #[inline]
    pub(super) fn reads_first_only(&self, plan: &PiecePlan) -> bool {
        self.gate().is_some_and(|gate| gate.reads_first_only(&plan.range()))
    }

    /// The targets that lack a part of a piece.
    #[inline]
    pub(super) fn lacking(&self, plan: &PiecePlan) -> TargetSet {
        self.gate().map_or_else(TargetSet::default, |gate| gate.lacking(plan))
    }

    /// Makes a member I/O of metadata.
    pub(super) fn issue_metadata(&mut self, now: Nanos) -> Option<MemberIo> {
        let MetadataIo { token, member, op, offset, length } =
            self.ask_gate(|gate, array| gate.poll_io(now, array))??;
        let io = MemberIo {
            id: IoId(0),
            request: RequestId(u64::MAX),
            member,
            op,
            purpose: Purpose::Metadata,
            offset,
            length,
            volume_offset: 0,
            stream: 0,
            background: true,
            role: ReadRole::Only,
            submitted_at: now,
        };
        Some(self.hand_out(io, Owner::Gate(token)))
    }

    /// The token that the gate gave a member I/O in flight, if the I/O is of the gate.
    pub fn metadata_token(&self, id: IoId) -> Option<u32> {
        match self.in_flight.find(id)?.owner {
            Owner::Gate(token) => Some(token),
            _ => None,
        }
    }

    /// The piece that a read in flight serves, the target that it reads, and the read, if its data
    /// count.
    pub fn piece_of_read(&self, id: IoId) -> Option<(PieceView, PlanTarget, &MemberIo)> {
        let in_flight = self.in_flight.find(id)?;
        match in_flight.owner {
            Owner::Piece(key, target) if !in_flight.superseded => {
                Some((self.view(key), target, &in_flight.io))
            }
            _ => None,
        }
    }

    /// The request that a member I/O in flight reads or writes data of. Panics if the I/O is one of
    /// metadata or of a full stripe.
    pub fn request_of(&self, io: &MemberIo) -> &Request {
        let in_flight = self.in_flight.find(io.id).expect("the I/O is in flight");
        match in_flight.owner {
            Owner::Piece(key, _) => self.requests.piece_and_request(key).1,
            Owner::Stripe(StripeOwner::Strip(key)) => &self.requests.get(key).request,
            owner => panic!("{io:?} of {owner:?}"),
        }
    }

    /// The next step on the buffer of a stripe. Steps are done before member I/O that was handed
    /// out after them, and before replies.
    pub fn poll_stripe_step(&mut self) -> Option<(StripeBuffer, StripeStep)> {
        self.stripes.as_mut()?.pop_step()
    }

    /// Place of the data of a member I/O whose role is [`ReadRole::Stripe`]. Panics if it is not in
    /// flight.
    pub fn stripe_place(&self, io: &MemberIo) -> StripePlace {
        let in_flight = self.in_flight.find(io.id).expect("the I/O is in flight");
        let stripes = self.stripes.as_ref().expect("the volume has parity");
        match in_flight.owner {
            Owner::Stripe(StripeOwner::Operation(key, column)) => {
                stripes.place((key, column), io, self.layout.map())
            }
            owner => panic!("{io:?} of {owner:?}"),
        }
    }

    /// Calls the stripes, if the volume has parity; then ends the parts of requests that ended, and
    /// notifies the policy if that changed the state of a member.
    pub(super) fn ask_stripes<R>(
        &mut self,
        ask: impl FnOnce(&mut Stripes, &mut StripeContext<'_>) -> R,
    ) -> Option<R> {
        let version = self.states.version();
        let mut context = StripeContext {
            map: self.layout.map(),
            requests: &self.requests,
            states: &mut self.states,
            decider: &mut self.decider,
            work: &mut self.work,
            is_read_only: self.options.is_read_only,
        };
        let result = ask(self.stripes.as_deref_mut()?, &mut context);
        if self.states.version() != version {
            self.notify_members_change();
        }
        while let Some((request, result)) = self.stripes.as_mut()?.pop_ended() {
            self.end_piece_of(request, result);
        }
        Some(result)
    }
}
