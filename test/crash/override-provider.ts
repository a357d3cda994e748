import type { Provider } from '../../src/providers/contract/provider.ts';

/** The same provider with some methods replaced. */
export function overrideProvider(inner: Provider, overrides: Partial<Provider>): Provider {
  return new Proxy(inner, {
    get(target, property) {
      const override: unknown = Reflect.get(overrides, property);
      if (override !== undefined) return override;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
}
