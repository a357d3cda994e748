import type { JSX } from 'preact';
import { Button } from '../components/button.tsx';
import { Icon } from '../components/icon.tsx';
import { dismiss, toasts } from '../state/toasts.ts';

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="region" aria-label="Messages" aria-live="polite">
      {toasts.value.map(({ id, text, isError, requestId }) => (
        <div key={id} class="toast" data-st={isError ? 'failed' : 'completed'}>
          <Icon name={isError ? 'failed' : 'completed'} class="ic" />
          <p>
            <bdi>{text}</bdi>
            {requestId !== undefined && (
              <small>
                Request <code>{requestId}</code>
              </small>
            )}
          </p>
          <Button
            small
            look="ghost"
            icon="close"
            label="Close message"
            onClick={() => dismiss(id)}
          />
        </div>
      ))}
    </div>
  );
}
