import type Database from 'better-sqlite3';

/** The rows of `leases` and `system_records`, which belong to the whole store. */
export class SystemRecords {
  readonly #takeLease;
  readonly #releaseLease;
  readonly #read;
  readonly #write;
  readonly #remove;

  constructor(db: Database.Database) {
    this.#takeLease = db.prepare<[{ name: string; owner: string; now: number; expiresAt: number }]>(
      `INSERT INTO leases (name, owner, expires_at) VALUES (:name, :owner, :expiresAt)
       ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
       WHERE owner = excluded.owner OR expires_at <= :now`,
    );
    this.#releaseLease = db.prepare<[string, string]>(
      'DELETE FROM leases WHERE name = ? AND owner = ?',
    );
    this.#read = db
      .prepare<[string], string>('SELECT value FROM system_records WHERE name = ?')
      .pluck();
    this.#write = db.prepare<[string, string]>(
      `INSERT INTO system_records (name, value) VALUES (?, ?)
       ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    );
    this.#remove = db.prepare<[string]>('DELETE FROM system_records WHERE name = ?');
  }

  /** Takes or renews a lease. Returns whether the owner has it. */
  takeLease(
    lease: { readonly name: string; readonly owner: string; readonly leaseMs: number },
    now: number,
  ): boolean {
    const { name, owner, leaseMs } = lease;
    const expiresAt = now + Math.ceil(leaseMs);
    return this.#takeLease.run({ name, owner, now, expiresAt }).changes === 1;
  }

  releaseLease(name: string, owner: string): void {
    this.#releaseLease.run(name, owner);
  }

  read(name: string): string | null {
    return this.#read.get(name) ?? null;
  }

  write(name: string, value: string | null): void {
    if (value === null) this.#remove.run(name);
    else this.#write.run(name, value);
  }
}
