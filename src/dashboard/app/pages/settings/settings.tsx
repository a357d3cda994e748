import type { JSX } from 'preact';
import { call } from '../../api/call.ts';
import { session, signOut } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Panel, Segments } from '../../components/panel.tsx';
import { Moment } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { useResource } from '../../state/resource.ts';
import { density, theme, timeZone } from '../../state/settings.ts';

/** How the dashboard looks in this browser, and who is signed in. */
export function Settings(): JSX.Element {
  const me = useResource('me', (signal) => call('me', {}, signal)).data.value;
  const info = session.value;
  return (
    <>
      <TopBar title="Settings" />
      <div class="wrap settings">
        <Panel title="Appearance">
          <div class="setting">
            <div>
              <b>Theme</b>
              <p class="dim">System follows the setting of your computer.</p>
            </div>
            <Segments
              label="Theme"
              value={theme.value}
              options={[
                ['system', 'System'],
                ['light', 'Light'],
                ['dark', 'Dark'],
              ]}
              onChange={(value) => {
                theme.value = value;
              }}
            />
          </div>
          <div class="setting">
            <div>
              <b>Density</b>
              <p class="dim">Compact shows more rows.</p>
            </div>
            <Segments
              label="Density"
              value={density.value}
              options={[
                ['comfortable', 'Comfortable'],
                ['compact', 'Compact'],
              ]}
              onChange={(value) => {
                density.value = value;
              }}
            />
          </div>
          <div class="setting">
            <div>
              <b>Time zone</b>
              <p class="dim">Local is {Intl.DateTimeFormat().resolvedOptions().timeZone}.</p>
            </div>
            <Segments
              label="Time zone"
              value={timeZone.value}
              options={[
                ['local', 'Local'],
                ['utc', 'UTC'],
              ]}
              onChange={(value) => {
                timeZone.value = value;
              }}
            />
          </div>
        </Panel>
        <Panel title="Session" class="gap-top">
          <dl class="kv panel-p">
            <dt>Name</dt>
            <dd>
              <bdi>{info?.name ?? 'Not signed in: this server has no tokens.'}</bdi>
            </dd>
            <dt>Role</dt>
            <dd>
              {info?.role ?? ''}
              {info?.readOnly === true && ', read only here'}
            </dd>
            {me?.definitions !== undefined && (
              <>
                <dt>Definitions</dt>
                <dd>
                  <bdi>{me.definitions.join(', ')}</bdi>
                </dd>
              </>
            )}
            {info?.expiresAt != null && (
              <>
                <dt>Expires</dt>
                <dd>
                  <Moment at={info.expiresAt} />
                </dd>
              </>
            )}
            <dt>Server</dt>
            <dd>
              Perdure {info?.version ?? ''}
              {me !== undefined && `, ${me.store.kind}`}
            </dd>
          </dl>
          {info?.state === 'signedIn' && (
            <div class="panel-p">
              <Button onClick={() => void signOut()}>Sign out</Button>
            </div>
          )}
        </Panel>
      </div>
    </>
  );
}
