import { statSync, watch, type FSWatcher } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const debounceMs = 100;
const sourcePattern = /\.(?:[cm]?[jt]sx?|json)$/;

/** Watches source files by their folders, because editors replace a file when they save it. */
export class SourceWatch {
  readonly #onChange: (path: string) => void;
  readonly #folders = new Map<string, FSWatcher>();
  readonly #versions = new Map<string, string>();
  /** Files with an event since the last check, with their version before it. */
  readonly #pending = new Map<string, string | undefined>();
  #timer: NodeJS.Timeout | undefined;
  /** Also react to files that were never loaded: an import may be missing. */
  #takesAny = false;

  constructor(onChange: (path: string) => void) {
    this.#onChange = onChange;
  }

  /** Watches a file. */
  add(path: string): void {
    this.#versions.set(path, versionOf(path));
    const folder = dirname(path);
    if (this.#folders.has(folder)) return;
    try {
      const watcher = watch(folder, (_, name) => this.#onEvent(folder, name));
      watcher.on('error', () => this.#remove(folder));
      this.#folders.set(folder, watcher);
    } catch {
      // The folder was deleted. A change elsewhere restarts the worker.
    }
  }

  /** Sets whether any source file in the watched folders counts. */
  takeAny(takesAny: boolean): void {
    this.#takesAny = takesAny;
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const watcher of this.#folders.values()) watcher.close();
    this.#folders.clear();
  }

  #remove(folder: string): void {
    this.#folders.get(folder)?.close();
    this.#folders.delete(folder);
  }

  #onEvent(folder: string, name: string | null): void {
    const path = join(folder, basename(name ?? ''));
    const known = this.#versions.get(path);
    if (known === undefined && !(this.#takesAny && sourcePattern.test(path))) return;
    // Several events belong to one save, and reading a file can cause one too.
    if (!this.#pending.has(path)) this.#pending.set(path, known);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#check(), debounceMs);
  }

  #check(): void {
    const pending = [...this.#pending];
    this.#pending.clear();
    for (const [path, known] of pending) {
      const version = versionOf(path);
      if (version === known) continue;
      this.#versions.set(path, version);
      this.#onChange(path);
    }
  }
}

function versionOf(path: string): string {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? 'missing' : `${stats.mtimeMs} ${stats.size}`;
}
