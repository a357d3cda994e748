import { expect, it } from 'vitest';
import { createDatabase, querySql } from './server.ts';

it('gives every test a database of its own', async () => {
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
