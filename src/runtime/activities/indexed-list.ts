/** A member of an `IndexedList`. */
export interface Indexed {
  /** Its position in the list. Only the list sets it. */
  index: number;
}

/**
 * An unordered list whose members store their positions. Unlike a set, it releases a deleted member immediately: V8 links the
 * old table of a set to the next one, which keeps members until the next full garbage collection.
 */
export class IndexedList<Member extends Indexed> {
  readonly #members: Member[] = [];

  get size(): number {
    return this.#members.length;
  }

  add(member: Member): void {
    member.index = this.#members.length;
    this.#members.push(member);
  }

  /** Deletes a member. The last one moves to its position. */
  delete(member: Member): void {
    const last = this.#members.pop();
    if (last === undefined || last === member) return;
    this.#members[member.index] = last;
    last.index = member.index;
  }

  /** A copy, so that members can be deleted during a loop. */
  values(): readonly Member[] {
    return [...this.#members];
  }
}
