import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError } from '../api/api-error.ts';
import { Loading, Problem } from '../components/states.tsx';

/** A page gets the segments of the address after its own path. */
export interface PageComponent {
  (props: { readonly segments: readonly string[] }): JSX.Element | null;
  /** Loads its code before it is shown. */
  readonly preload?: () => Promise<void>;
}

type Props = Parameters<PageComponent>[0];

/** A page whose code is loaded when it is first shown. */
export function lazy<Name extends string>(
  load: () => Promise<Readonly<Record<Name, PageComponent>>>,
  name: Name,
): PageComponent {
  let loaded: PageComponent | undefined;
  const preload = async (): Promise<void> => {
    ({ [name]: loaded } = await load());
  };
  function LazyPage(props: Props): JSX.Element {
    const [Component, setComponent] = useState<PageComponent | undefined>(() => loaded);
    const [error, setError] = useState<ApiError>();
    const read = async (): Promise<void> => {
      setError(undefined);
      try {
        await preload();
        setComponent(() => loaded);
      } catch {
        setError(
          new ApiError(
            0,
            'PAGE_NOT_LOADED',
            'This page could not be loaded. The server cannot be reached or has a new version.',
          ),
        );
      }
    };
    useEffect(() => {
      if (Component === undefined) void read();
    }, []);
    if (Component !== undefined) return <Component {...props} />;
    // A reload fetches the pages of a new version.
    if (error !== undefined) return <Problem error={error} retry={() => location.reload()} />;
    return <Loading />;
  }
  return Object.assign(LazyPage, { preload });
}
