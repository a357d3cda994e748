/** Transfers between accounts with `ctx.transaction` while workers are killed and connections are cut. */
import { expect, test } from 'vitest';
import { runTransferLoop } from './helpers/transfer-loop.ts';

// `npm run crash:transfers` runs it with 1,000 kills per store, which takes many minutes.
const given = Number(process.env['PERDURE_TRANSFERS_KILLS']);
const isLong = process.env['MODE'] === 'transfers';
const killsOf = (kind: string): number =>
  given > 0 ? given : isLong ? 1_000 : kind === 'SQLite' ? 8 : 4;

for (const kind of ['SQLite', 'PostgreSQL'] as const) {
  const kills = killsOf(kind);
  const timeoutMs = Math.max(300_000, kills * 8_000);
  test(
    `each transfer is made exactly once while workers are killed (${kind}, ${kills} kills)`,
    async () => {
      const onProgress = isLong ? progressOf(kind) : undefined;
      const report = await runTransferLoop({ kind, kills, ...(onProgress && { onProgress }) });
      if (isLong) process.stderr.write(`${kind} ${JSON.stringify(report)}\n`);
      expect(report.violations).toEqual([]);
      expect(report.kills).toBeGreaterThanOrEqual(kills);
      expect(report.transfers).toBeGreaterThan(40);
    },
    timeoutMs,
  );

  test(
    `the transfer loop detects an ack outside of the transaction (${kind})`,
    async () => {
      for (let tries = 0; tries < 5; tries += 1) {
        const report = await runTransferLoop({ kind, kills: 6, together: false });
        if (report.violations.length > 0) {
          expect(report.violations.join('\n')).toMatch(/was made [2-9] times/);
          return;
        }
      }
      expect.unreachable('no violation was found');
    },
    timeoutMs,
  );
}

function progressOf(kind: string): (text: string) => void {
  let shownAt = 0;
  return (text) => {
    if (performance.now() - shownAt < 30_000) return;
    shownAt = performance.now();
    process.stderr.write(`${kind}: ${text}\n`);
  };
}
