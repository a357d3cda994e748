import type { JSX } from 'preact';
import { JsonView } from '../../components/json-view.tsx';
import { Panel } from '../../components/panel.tsx';
import { isActive } from '../../words/status.ts';
import { FailureView } from './event-panel.tsx';
import type { InstanceState } from './instance-data.ts';

/** Input, output and failure. */
export function Payloads({ data: { instance } }: { readonly data: InstanceState }): JSX.Element {
  const damaged = instance.undecodable ?? [];
  return (
    <div class="wrap two payloads">
      <Panel title="Input">
        <div class="panel-p">
          <Value
            value={instance.input}
            label="input"
            isDamaged={damaged.includes('input')}
            none="None"
          />
        </div>
      </Panel>
      <Panel title={instance.failure === undefined ? 'Output' : 'Failure'}>
        <div class="panel-p">
          {instance.failure === undefined ? (
            <Value
              value={instance.output}
              label="output"
              isDamaged={damaged.includes('output')}
              none={isActive(instance.status) ? 'None yet' : 'None'}
            />
          ) : (
            <FailureView failure={instance.failure} />
          )}
        </div>
      </Panel>
    </div>
  );
}

export function Value({
  value,
  label,
  none,
  isDamaged = false,
}: {
  readonly value: unknown;
  readonly label: string;
  readonly none: string;
  readonly isDamaged?: boolean;
}): JSX.Element {
  if (isDamaged) return <p class="bad">The stored value is damaged and cannot be read.</p>;
  if (value === undefined) return <p class="dim">{none}</p>;
  return <JsonView text={JSON.stringify(value)} label={label} />;
}
