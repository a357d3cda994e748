import type { CommandEvent } from '../model/event.ts';

/** The commands that the code issued during replay and that history has yet to confirm, first come first. */
export class IssuedCommands {
  #commands: CommandEvent[] = [];
  #head = 0;

  add(command: CommandEvent): void {
    this.#commands.push(command);
  }

  /** The next command to be confirmed. */
  get next(): CommandEvent | undefined {
    return this.#commands[this.#head];
  }

  confirm(): void {
    this.#head += 1;
    if (this.#head === this.#commands.length) {
      this.#commands = [];
      this.#head = 0;
    }
  }
}
