/// What lets new guests in: challenges for their keys, the work that these ask for, and the room that there is.
struct NewGuests: Sendable {
  let challenges: ChallengeBook
  let admission: GuestAdmission
  let room: GuestRoom
}
