import type { JSX } from 'preact';
import { Segments } from '../../components/panel.tsx';
import { setQuery } from '../../state/router.ts';
import type { Window } from './series-data.ts';

/** Chooses the window of the series. The address has it unless it is the default. */
export function WindowChoice({ value }: { readonly value: Window }): JSX.Element {
  return (
    <Segments
      label="Window"
      value={value}
      options={[
        ['1h', '1 h'],
        ['6h', '6 h'],
        ['24h', '24 h'],
        ['7d', '7 d'],
      ]}
      onChange={(chosen) =>
        setQuery({ window: chosen === '1h' ? undefined : chosen }, { replace: true })
      }
    />
  );
}
