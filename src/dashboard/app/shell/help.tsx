import type { JSX } from 'preact';
import { Button } from '../components/button.tsx';
import { Dialog } from '../components/dialog.tsx';
import { isHelpOpen } from './palette-state.ts';
import { currentKeys } from '../state/page-keys.ts';
import { globalKeys } from './shortcuts.ts';

/** The keys of the dashboard and of the page that is shown. */
export function Help(): JSX.Element | null {
  if (!isHelpOpen.value) return null;
  const close = (): void => {
    isHelpOpen.value = false;
  };
  const own = currentKeys();
  return (
    <Dialog title="Keys" onClose={close}>
      <div class="dlg-b keys">
        {own.length > 0 && <KeyList title="This page" keys={own} />}
        <KeyList title="Everywhere" keys={globalKeys} />
      </div>
      <div class="dlg-f">
        <div class="right">
          <Button onClick={close}>Close</Button>
        </div>
      </div>
    </Dialog>
  );
}

function KeyList({
  title,
  keys,
}: {
  readonly title: string;
  readonly keys: readonly { readonly key: string; readonly description: string }[];
}): JSX.Element {
  return (
    <section>
      <h3>{title}</h3>
      <dl>
        {keys.map(({ key, description }) => (
          <div key={key}>
            <dt>
              {key.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
