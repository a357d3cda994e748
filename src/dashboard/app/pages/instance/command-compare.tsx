import type { JSX } from 'preact';
import { plural } from '../../words/format.ts';
import type { FieldRow, Part } from './command-fields.ts';

/** The command at which replay stopped, field by field. */
export function CommandCompare({
  title,
  rows,
}: {
  readonly title: string;
  readonly rows: readonly FieldRow[];
}): JSX.Element {
  const different = rows.filter(({ isDifferent }) => isDifferent).length;
  return (
    <section class="panel gap-top">
      <div class="panel-h">
        <h2>{title}</h2>
        <div class="right">{plural(different, 'field differs', 'fields differ')}</div>
      </div>
      <table class="fd">
        <colgroup>
          <col class="f1" />
          <col class="f2" />
          <col />
        </colgroup>
        <thead>
          <tr>
            <th>Field</th>
            <th>Recorded</th>
            <th>Issued</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ field, recorded, issued, isDifferent }) => (
            <tr key={field} class={isDifferent ? 'diff' : ''}>
              <td class={isDifferent ? 'sec' : 'dim'}>{field}</td>
              <td>
                <Side parts={recorded} />
              </td>
              <td>
                <Side parts={issued} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Side({ parts }: { readonly parts: readonly Part[] }): JSX.Element {
  return (
    <code>
      {parts.map(({ text, isDifferent }, index) =>
        isDifferent ? (
          <mark key={index}>
            <bdi>{text}</bdi>
          </mark>
        ) : (
          <bdi key={index}>{text}</bdi>
        ),
      )}
    </code>
  );
}
