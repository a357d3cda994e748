import { expect, it } from 'vitest';
import { createDatabase, querySql } from './server.ts';

it('createDatabase() returns a new database for every call', async () => {
  const first = await createDatabase();
  const second = await createDatabase();
  try {
    const name = async (url: string) =>
      (await querySql<{ name: string }>(url, 'SELECT current_database() AS name'))[0]?.name;
    expect(await name(first.url)).not.toBe(await name(second.url));
  } finally {
    await first.drop();
    await second.drop();
  }
});
