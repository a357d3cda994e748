import { describe, expect, it } from 'vitest';
import { openDashboard } from './helpers/dashboard-fixture.ts';

describe('signing in', () => {
  it('a token is exchanged for a session that reads, writes and signs out', async () => {
    const { tokens, signIn } = await openDashboard();
    const browser = await signIn(tokens.operate);
    expect(browser.state).toMatchObject({
      state: 'signedIn',
      role: 'operate',
      name: 'operate token',
      title: 'Perdure',
      environment: null,
      readOnly: false,
      links: [],
    });
    expect(browser.state.csrfToken).toMatch(/^[\w-]{43}$/);
    expect(await browser.session()).toMatchObject({ csrfToken: browser.state.csrfToken });
    expect((await browser.send('v1/instances')).status).toBe(200);
    const started = await browser.send('v1/instances', {
      method: 'POST',
      body: { name: 'hello', id: 'one' },
    });
    expect(started.status).toBe(200);
    const left = await browser.send('session', { method: 'DELETE' });
    expect(await left.json()).toMatchObject({ state: 'signedOut', role: null, csrfToken: null });
    expect(left.headers.get('set-cookie')).toContain('Max-Age=0');
    expect((await browser.send('v1/instances')).status).toBe(401);
    expect((await browser.session()).state).toBe('signedOut');
  });
});
