import type { JSX } from 'preact';
import { apiBase } from '../../api/session.ts';
import { writePath } from '../../../../server/routes/route.ts';
import { Icon } from '../../components/icon.tsx';
import { JsonView } from '../../components/json-view.tsx';
import { Panel } from '../../components/panel.tsx';
import type { InstanceState } from './instance-data.ts';

/** What the server answers, and the export of the history. */
export function Raw({ data: { instance, why } }: { readonly data: InstanceState }): JSX.Element {
  const exported = new URL(
    `.${writePath('/v1/instances/{id}/export', { id: instance.id })}`,
    apiBase,
  );
  return (
    <div class="wrap raw">
      {instance.kind === 'orchestration' && (
        <p>
          <a class="btn" href={exported.href} download="history.json">
            <Icon name="down" />
            Export the history
          </a>{' '}
          <span class="dim">For a replay test: `replayTest` runs your code against it.</span>
        </p>
      )}
      <Panel title="Instance">
        <div class="panel-p">
          <JsonView text={JSON.stringify(instance)} label="instance" />
        </div>
      </Panel>
      <Panel title="Why">
        <div class="panel-p">
          <JsonView text={JSON.stringify(why)} label="why" />
        </div>
      </Panel>
    </div>
  );
}
