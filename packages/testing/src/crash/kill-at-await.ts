// Counts the awaits of injected dependencies and calls `kill` at the n-th: each call that answers with a promise has two points,
// before it is made and after it has settled. What a call hands out (a transaction, a client, a stream) is counted as well.
import { isActive, isPlain, isThenable } from '../active-object.ts'

export type CountOptions = {
  /** Never, when left out. */
  killAt?: number
  kill: () => void
  /** Known from an earlier count: whether a call answers with a promise is seen only after it was made. */
  synchronous?: Iterable<string>
}
type Fn = (...values: unknown[]) => unknown

export function killAtAwait(options: CountOptions): AwaitCounter {
  return new AwaitCounter(options)
}

class AwaitCounter {
  readonly #options: CountOptions
  readonly #points: string[] = []
  readonly #synchronous: Set<string>
  readonly #wrapped = new WeakMap<object, object>()
  readonly #originals = new WeakMap<object, object>()

  constructor(options: CountOptions) {
    this.#options = options
    this.#synchronous = new Set(options.synchronous)
  }

  /** One label per point so far, in order: `deps.sql.begin before`, `deps.sql.begin.handed.query after`. */
  get points(): readonly string[] {
    return this.#points
  }

  /** Labels of calls that answered at once: no awaits, hence no points. */
  get synchronous(): ReadonlySet<string> {
    return this.#synchronous
  }

  /** The same object with every method counted; `name` begins the labels. */
  wrap<T extends object>(dependencies: T, name = 'deps'): T {
    return this.#wrapObject(dependencies, name) as T
  }

  #reach(label: string): void {
    if (this.#points.push(label) === this.#options.killAt) this.#options.kill()
  }

  #call(label: string, run: () => unknown): unknown {
    const counted = !this.#synchronous.has(label)
    if (counted) this.#reach(`${label} before`)
    const result = run()
    if (isThenable(result)) return this.#settled(label, result)
    if (counted) this.#withdraw(label)
    return this.#wrapIfActive(result, label)
  }

  /** The call was no await, so the point before it was none. */
  #withdraw(label: string): void {
    this.#synchronous.add(label)
    this.#points.splice(this.#points.lastIndexOf(`${label} before`), 1)
  }

  async #settled(label: string, result: PromiseLike<unknown>): Promise<unknown> {
    try {
      const value = await result
      this.#reach(`${label} after`)
      return this.#wrapIfActive(value, label)
    } catch (error) {
      this.#reach(`${label} after`)
      throw error
    }
  }

  #counting(fn: Fn, self: unknown, label: string): Fn {
    return (...values) =>
      this.#call(label, () =>
        Reflect.apply(
          fn,
          self,
          values.map((value) => this.#inward(value, label)),
        ),
      )
  }

  /** Arguments of a dependency: callbacks receive counted objects, and wrapped objects are unwrapped. */
  #inward(value: unknown, label: string): unknown {
    const original = this.#originals.get(value as object)
    if (original || typeof value !== 'function') return original ?? value
    const callback = value as Fn
    return this.#remember(
      callback,
      () =>
        (...handed: unknown[]) =>
          callback(...handed.map((each) => this.#wrapIfActive(each, `${label}.handed`))),
    )
  }

  #wrapIfActive(value: unknown, label: string): unknown {
    return isActive(value) ? this.#wrapObject(value, label) : value
  }

  #wrapObject(target: object, label: string): object {
    // The proxy stands on an empty shadow, because the rules for proxies forbid to change members of a frozen object.
    const shadow =
      typeof target === 'function' ? () => undefined : (Object.create(Object.getPrototypeOf(target) as object | null) as object)
    return this.#remember(target, () => new Proxy(shadow, this.#handler(target, label)))
  }

  #handler(target: object, label: string): ProxyHandler<object> {
    const member = (key: string | symbol) => this.#member(target, key, `${label}.${String(key)}`)
    return {
      get: (_, key) => member(key),
      set: (_, key, value) => Reflect.set(target, key, value),
      has: (_, key) => Reflect.has(target, key),
      ownKeys: () => Reflect.ownKeys(target).filter((key) => Object.prototype.propertyIsEnumerable.call(target, key)),
      getOwnPropertyDescriptor: (_, key) =>
        Object.hasOwn(target, key) ? { value: member(key), configurable: true, enumerable: true, writable: true } : undefined,
      apply: (_, self, values) => this.#counting(target as Fn, self, label)(...(values as unknown[])),
    }
  }

  /** Methods run on the object itself: its private fields would refuse a proxy as `this`. */
  #member(target: object, key: string | symbol, label: string): unknown {
    const value: unknown = Reflect.get(target, key, target)
    if (typeof value === 'function' && key !== 'constructor') return this.#counting(value as Fn, target, label)
    return isPlain(value) || isActive(value) ? this.#wrapObject(value, label) : value
  }

  /** One wrapper per object, so that identity and `off(listener)` keep working. */
  #remember(target: object, make: () => object): object {
    if (this.#originals.has(target)) return target
    const wrapper = this.#wrapped.get(target)
    if (wrapper) return wrapper
    const newWrapper = make()
    this.#wrapped.set(target, newWrapper)
    this.#originals.set(newWrapper, target)
    return newWrapper
  }
}
