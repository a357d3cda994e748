import { expect, it } from 'vitest';
import type { AuditRecord } from '../../providers/contract/management.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import { listAudit, readAuditQuery, maxPageBytes } from './instance-list.ts';

/** A provider with `count` audit records, and the maximum that one read returned. */
function providerWith(count: number, filterLength: number) {
  const records = Array.from({ length: count }, (_, index): AuditRecord => ({
    auditKey: count - index,
    auditId: `id-${count - index}`,
    action: 'deleteBulk',
    actor: null,
    reason: null,
    instanceId: null,
    instances: 1,
    filter: 'f'.repeat(filterLength),
    at: 0,
    instancesDeleted: 1,
    executionsDeleted: 0,
    eventsDeleted: 0,
    queueMessagesDeleted: 0,
  }));
  let most = 0;
  const provider: Pick<Provider, 'listAudit'> = {
    listAudit: async ({ limit, beforeKey = Infinity }) => {
      const found = records.filter(({ auditKey }) => auditKey < beforeKey).slice(0, limit);
      most = Math.max(most, found.length);
      return found;
    },
  };
  return { provider: provider as Provider, mostRead: () => most };
}

async function pagesOf(provider: Provider, limit: number): Promise<readonly (readonly number[])[]> {
  const pages: (readonly number[])[] = [];
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await listAudit(provider, readAuditQuery({ limit, cursor }));
    pages.push(items.map(({ auditKey }) => auditKey));
    cursor = nextCursor;
  } while (cursor !== undefined);
  return pages;
}

const down = (from: number): readonly number[] => Array.from({ length: from }, (_, n) => from - n);

it.each([0, 1, 99, 100, 101, 250])(
  'listAudit() returns each of %i records once over all pages',
  async (n) => {
    for (const limit of [1, 7, 100, 1_000]) {
      const pages = await pagesOf(providerWith(n, 10).provider, limit);
      expect(pages.flat()).toEqual(down(n));
      expect(pages.length).toBe(Math.max(1, Math.ceil(n / limit)));
    }
  },
);

it('listAudit() ends a page at 8 MiB and reads at most 100 records at a time', async () => {
  const { provider, mostRead } = providerWith(1_000, 30_000);
  const pages = await pagesOf(provider, 1_000);
  expect(pages.flat()).toEqual(down(1_000));
  for (const page of pages) expect(page.length * 30_000).toBeLessThanOrEqual(maxPageBytes);
  expect(mostRead()).toBeLessThanOrEqual(100);
});
