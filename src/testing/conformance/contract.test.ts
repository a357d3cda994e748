import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { capabilities, conformanceCases } from './conformance-cases.ts';

const files = [
  'provider.ts',
  'orchestration-queue.ts',
  'work-queue.ts',
  'instances.ts',
  'cancellation.ts',
  'management.ts',
  'reruns.ts',
  'pausing.ts',
  'processes.ts',
  'workers.ts',
  'tasks.ts',
  'schedules.ts',
  'sessions.ts',
  'streams.ts',
  'updates.ts',
  'limits.ts',
];
// Files with few methods.
const smallFiles = [
  'transactional.ts',
  'unclaimed-work.ts',
  'state.ts',
  'inspection.ts',
  'views.ts',
  'series.ts',
];

interface Clause {
  readonly file: string;
  readonly text: string;
  readonly ids: readonly string[];
}

/** A clause starts with a dash or a rule number, continues in indented lines, and ends with its cases. */
function readClauses(file: string): readonly Clause[] {
  const source = readFileSync(new URL(`../../providers/contract/${file}`, import.meta.url), 'utf8');
  const texts: string[] = [];
  let open = false;
  for (const line of source.split('\n')) {
    const start = /^\s*\* (?:- |P\d+\. )(.*)$/.exec(line)?.[1];
    const more = /^\s*\* {3,}(\S.*)$/.exec(line)?.[1];
    if (start !== undefined) texts.push(start);
    else if (open && more !== undefined) texts.push(`${texts.pop() ?? ''} ${more}`);
    open = start !== undefined || (open && more !== undefined);
  }
  return texts.map((text) => ({ file, text, ids: idsAtTheEnd(text) }));
}

function idsAtTheEnd(text: string): readonly string[] {
  const listed = /\(([^()]*)\)$/.exec(text)?.[1]?.split(', ') ?? [];
  return listed.every((id) => /^[a-z-]+\/[a-z0-9-]+$/.test(id)) ? listed : [];
}

const clauses = [...files, ...smallFiles].flatMap(readClauses);

describe('conformance suite and provider contract', () => {
  it('finds the clauses of every contract file', () => {
    const counts = files.map((file) => clauses.filter((clause) => clause.file === file).length);
    expect(counts.every((count) => count >= 10)).toBe(true);
    expect(clauses.length).toBeGreaterThanOrEqual(110);
  });

  it('every clause has at least one case', () => {
    const unshown = clauses.filter(({ ids }) => ids.length === 0);
    expect(unshown.map(({ file, text }) => `${file}: ${text}`)).toEqual([]);
  });

  it('clauses name only existing cases', () => {
    const known = new Set(conformanceCases.map(({ id }) => id));
    const unknown = clauses.flatMap(({ file, ids }) =>
      ids.filter((id) => !known.has(id)).map((id) => `${file}: ${id}`),
    );
    expect(unknown).toEqual([]);
  });

  it('every case is named by a clause', () => {
    const named = new Set(clauses.flatMap(({ ids }) => ids));
    expect(conformanceCases.map(({ id }) => id).filter((id) => !named.has(id))).toEqual([]);
  });

  it('idsAtTheEnd() returns no ids for a clause without cases', () => {
    expect(idsAtTheEnd('do something')).toEqual([]);
    expect(idsAtTheEnd('keep (instance, execution)')).toEqual([]);
    expect(idsAtTheEnd('keep (a, b). (ack/one, ack/two)')).toEqual(['ack/one', 'ack/two']);
  });

  it('has distinct ids and titles, and at least 390 cases', () => {
    const ids = conformanceCases.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.length).toBeGreaterThanOrEqual(390);
    const titles = capabilities.flatMap(({ title, cases }) =>
      cases.map((each) => `${title}: ${each.title}`),
    );
    expect(new Set(titles).size).toBe(titles.length);
  });
});
