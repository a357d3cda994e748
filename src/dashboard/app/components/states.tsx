import type { ComponentChildren, JSX } from 'preact';
import type { ApiError } from '../api/api-error.ts';
import type { Resource } from '../state/resource.ts';
import { Button } from './button.tsx';
import { Icon, type IconName } from './icon.tsx';

/** What a page shows when there is nothing: why, and what to do. */
export function Empty({
  icon = 'instances',
  title,
  children,
}: {
  readonly icon?: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children !== undefined && <div class="empty-text">{children}</div>}
    </div>
  );
}

/** An error of the server, with the id that finds it in the log, and a way to try again. */
export function Problem({
  error,
  retry,
}: {
  readonly error: ApiError;
  readonly retry?: () => void;
}): JSX.Element {
  return (
    <div class="problem" role="alert">
      <Icon name="warning" />
      <div>
        <p>
          <bdi>{error.message}</bdi>
        </p>
        <p class="dim">
          {error.status > 0 ? `${error.code}, status ${error.status}` : error.code}
          {error.requestId !== undefined && (
            <>
              , request <code>{error.requestId}</code>
            </>
          )}
        </p>
      </div>
      {retry !== undefined && (
        <Button small onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** Grey rows in the place of what is being read. Shown only if reading takes a while. */
export function Loading({ rows = 6 }: { readonly rows?: number | undefined }): JSX.Element {
  return (
    <div class="loading" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        <i key={index} />
      ))}
    </div>
  );
}

/** The error of a resource, or grey rows until its first read. */
export function LoadState({
  of: resource,
  rows,
}: {
  readonly of: Resource<unknown>;
  readonly rows?: number;
}): JSX.Element | null {
  const error = resource.error.value;
  if (error !== undefined) return <Problem error={error} retry={() => resource.reload()} />;
  return resource.data.value === undefined ? <Loading rows={rows} /> : null;
}
