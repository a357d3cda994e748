import type { Locator, Page } from 'playwright-core';
import { expect } from 'vitest';
import type { AuditAction, AuditEntry, Client } from '../../src/index.ts';

/** The address of an instance, relative to the base path. */
export function instancePath(id: string, tab?: string): string {
  const segment = id === '.' || id === '..' || id.startsWith('~') ? `~${id}` : id;
  return `instances/${encodeURIComponent(segment)}${tab === undefined ? '' : `/${tab}`}`;
}

/** Signs in with a token and waits for the navigation. */
export async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation', { name: 'Pages' }).first().waitFor();
}

/** Fields of the dialog of an action, by label. `From` is a choice, a boolean a check box. */
export type DialogFields = Readonly<Record<string, string | boolean>>;

/** Fills in the open dialog and presses its last button. */
export async function confirmDialog(page: Page, fields: DialogFields = {}): Promise<void> {
  const dialog = page.getByRole('dialog');
  for (const [label, value] of Object.entries(fields)) {
    const field = dialog.getByLabel(new RegExp(`^${label}`));
    if (typeof value === 'boolean') await field.setChecked(value);
    else if (label === 'From') await field.selectOption(value);
    else await field.fill(value);
  }
  await dialog.locator('button[type=submit]').click();
  await dialog.waitFor({ state: 'detached' });
}

/** Chooses an item of a menu. */
export async function chooseItem(page: Page, menu: string | RegExp, item: string): Promise<void> {
  await page.getByRole('button', { name: menu }).click();
  await page.getByRole('menuitem', { name: item }).click();
}

/** A row of the list of instances. */
export function rowOf(page: Page, id: string): Locator {
  return page.getByRole('row').filter({ has: page.getByRole('link', { name: id, exact: true }) });
}

/** The newest entry of the audit with this action, which must appear. */
export async function auditOf(
  client: Client,
  action: AuditAction,
  conditions: { readonly instanceId?: string } = {},
): Promise<AuditEntry> {
  const { items } = await client.listAudit({ action, limit: 1, ...conditions });
  const [entry] = items;
  expect(entry, `audit of ${action}`).toBeDefined();
  return entry as AuditEntry;
}

/** Waits until the page has a text. */
export async function shows(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor();
}
