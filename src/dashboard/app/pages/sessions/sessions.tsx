import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { call } from '../../api/call.ts';
import type { ResponseBody } from '../../api/operations.ts';
import { may, session as login } from '../../api/session.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Panel } from '../../components/panel.tsx';
import { Empty, LoadState, Problem } from '../../components/states.tsx';
import { SidePanel } from '../../components/side-panel.tsx';
import { Status } from '../../components/status.tsx';
import { Row, Table, type TableColumn } from '../../components/table.tsx';
import { Ago, Moment, Until } from '../../components/text.tsx';
import { TopBar } from '../../shell/top-bar.tsx';
import { instanceHref, query, setQuery } from '../../state/router.ts';
import { useResource } from '../../state/resource.ts';
import { tell, tellError } from '../../state/toasts.ts';
import { formatDuration, formatNumber } from '../../words/format.ts';
import type { Tone } from '../../words/status.ts';

type Session = ResponseBody<'listSessions'>['items'][number];

const columns: readonly TableColumn[] = [
  { title: 'Session' },
  { title: 'State', width: '14%', small: 'side' },
  { title: 'Owner', width: '18%' },
  { title: 'Open jobs', width: '12%', isNumber: true },
  { title: 'Opened', width: '14%', isNumber: true },
  { title: 'Expires', width: '14%', isNumber: true },
];

const tones: Readonly<Record<Session['state'], Tone>> = {
  open: 'running',
  draining: 'canceling',
  closing: 'canceling',
  ended: 'completed',
};
const words: Readonly<Record<Session['state'], string>> = {
  open: 'Open',
  draining: 'Draining',
  closing: 'Closing',
  ended: 'Ended',
};

/** The sessions of clients and the jobs attached to them. */
export function Sessions(): JSX.Element {
  const page = useResource(
    'sessions',
    (signal) => call('listSessions', { query: { limit: 200 } }, signal),
    {
      everyMs: 3_000,
    },
  );
  const items = page.data.value?.items;
  const chosen = items?.find(({ id }) => id === query.value.get('session'));
  return (
    <>
      <TopBar title="Sessions and jobs" />
      <div class={chosen === undefined ? '' : 'split'}>
        <div class="wrap">
          <LoadState of={page} />
          {items?.length === 0 && (
            <Empty icon="session" title="No sessions yet.">
              A session attaches jobs to a client. When the client goes away, its jobs are canceled:
              <pre class="code">{`const session = await client.openSession({ label: 'import' });`}</pre>
            </Empty>
          )}
          {items !== undefined && items.length > 0 && (
            <Panel>
              <Table label="Sessions" columns={columns}>
                {items.map((session) => (
                  <Row
                    key={session.id}
                    isSelected={session === chosen}
                    cells={[
                      <button
                        type="button"
                        class="plain-link link cut"
                        title={session.label ?? session.id}
                        aria-expanded={session === chosen}
                        onClick={() => setQuery({ session: session.id }, { replace: true })}
                      >
                        <bdi>{session.label ?? session.id}</bdi>
                      </button>,
                      <Status tone={tones[session.state]} text={words[session.state]} />,
                      session.owner !== undefined && session.owner !== null && (
                        <bdi class="sec">{session.owner}</bdi>
                      ),
                      formatNumber(session.openJobs),
                      <Ago at={session.createdAt} />,
                      session.state !== 'ended' && <Until at={session.expiresAt} />,
                    ]}
                  />
                ))}
              </Table>
            </Panel>
          )}
        </div>
        {chosen !== undefined && (
          <SessionPanel key={chosen.id} session={chosen} reload={() => page.reload()} />
        )}
      </div>
    </>
  );
}

/** Operators may shut down the sessions of their own token, admins all. */
function mayShutDown({ owner }: Session): boolean {
  return may('admin') || (may('operate') && owner !== undefined && owner === login.value?.name);
}

function SessionPanel({
  session,
  reload,
}: {
  readonly session: Session;
  readonly reload: () => void;
}): JSX.Element {
  const [isAsking, setAsking] = useState(false);
  const jobs = useResource(
    `jobs ${session.id}`,
    (signal) => call('listJobs', { params: { id: session.id }, query: { limit: 100 } }, signal),
    { everyMs: 3_000 },
  );
  const variables = Object.entries(session.variables);
  return (
    <SidePanel
      label={`Session ${session.label ?? session.id}`}
      title={session.label ?? session.id}
      status={<Status tone={tones[session.state]} text={words[session.state]} />}
      onClose={() => setQuery({ session: undefined }, { replace: true })}
    >
      {mayShutDown(session) && session.state !== 'ended' && (
        <div class="sect acts-row">
          <Button small look="danger" onClick={() => setAsking(true)}>
            Shut down…
          </Button>
        </div>
      )}
      <div class="sect">
        <dl class="kv">
          <dt>Id</dt>
          <dd>
            <bdi class="mono">{session.id}</bdi>
          </dd>
          <dt>Opened</dt>
          <dd>
            <Moment at={session.createdAt} />
          </dd>
          <dt>Idle limit</dt>
          <dd>{formatDuration(session.idleTimeoutMs)}</dd>
          {session.end !== undefined && (
            <>
              <dt>Ended by</dt>
              <dd>
                {
                  { shutdown: 'a shutdown', goodbye: 'its client', expired: 'its idle limit' }[
                    session.end
                  ]
                }
              </dd>
            </>
          )}
        </dl>
      </div>
      <div class="sect">
        <h3>
          Variables <span class="right">{variables.length}</span>
        </h3>
        {session.variablesHidden === true && (
          <p class="dim">Hidden: the session belongs to another token.</p>
        )}
        {variables.length === 0 && session.variablesHidden !== true && <p class="dim">None</p>}
        <dl class="kv">
          {variables.map(([name, value]) => (
            <>
              <dt key={name} class="cut">
                <bdi>{name}</bdi>
              </dt>
              <dd>
                <bdi>{value}</bdi>
              </dd>
            </>
          ))}
        </dl>
      </div>
      <div class="sect">
        <h3>Jobs</h3>
        {jobs.error.value !== undefined && (
          <Problem error={jobs.error.value} retry={() => jobs.reload()} />
        )}
        {jobs.data.value?.items.length === 0 && <p class="dim">None</p>}
        <ul class="waits">
          {(jobs.data.value?.items ?? []).map((job) => (
            <li key={job.id} class="run-line">
              <Status tone={job.status} />
              <a class="link cut" href={instanceHref(job.id)}>
                <bdi>{job.name}</bdi>
              </a>
              <span class="dim">
                <Ago at={job.createdAt} />
              </span>
            </li>
          ))}
        </ul>
      </div>
      {isAsking && (
        <ShutdownDialog session={session} onClose={() => setAsking(false)} onDone={reload} />
      )}
    </SidePanel>
  );
}

function ShutdownDialog({
  session,
  onClose,
  onDone,
}: {
  readonly session: Session;
  readonly onClose: () => void;
  readonly onDone: () => void;
}): JSX.Element {
  const [reason, setReason] = useState('');
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    try {
      await call('shutdownSession', {
        params: { id: session.id },
        body: { mode: 'forceful', ...(reason.trim() !== '' && { reason: reason.trim() }) },
      });
      tell('The session is shutting down.');
      onClose();
      onDone();
    } catch (error) {
      tellError('The session was not shut down', error);
    }
  };
  return (
    <Dialog title={`Shut down a session with ${session.openJobs} open jobs`} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <div class="dlg-b">
          <p class="sub">Its jobs are canceled, and it takes no new ones.</p>
          <div class="form">
            <label class="field full">
              <span>
                Reason <i class="hint">kept in the audit</i>
              </span>
              <input
                class="input"
                autofocus
                value={reason}
                onInput={(event) => setReason(event.currentTarget.value)}
              />
            </label>
          </div>
        </div>
        <div class="dlg-f">
          <div class="right">
            <Button onClick={onClose}>Keep it open</Button>
            <Button type="submit" look="dangerFill">
              Shut down
            </Button>
          </div>
        </div>
      </form>
    </Dialog>
  );
}
