// Kinds of fields with numbers or text for numbers: durations and sizes. All have bounds (V9).
import { z } from 'zod'
import { parseDuration, parseQuantity, printDuration, printQuantity } from './duration.ts'
import { type Kind, refuse, refuseType, type SpecLocation } from './field.ts'

const same = <T>(value: T): T => value

interface Bounds {
  readonly min: number
  readonly max?: number
  /** The lower bound is exclusive. */
  readonly above?: boolean
}

export const whole = (bounds: Bounds): Kind<number> => ({
  read: (value, at) => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) return refuseType(at, 'whole number', value)
    return within(value, bounds, at, String, String(value))
  },
  print: same,
  schema: bounds.max === undefined ? z.int().min(bounds.min) : z.int().min(bounds.min).max(bounds.max),
})

export const number = (bounds: Bounds): Kind<number> => ({
  read: (value, at) => (typeof value === 'number' ? within(value, bounds, at, String, String(value)) : refuseType(at, 'number', value)),
  print: same,
  schema: z.number().min(bounds.min),
})

function within(value: number, bounds: Bounds, at: SpecLocation, print: (bound: number) => string, written: string): number | undefined {
  const { min, max, above } = bounds
  const isLow = above === true ? value <= min : value < min
  if (!isLow && (max === undefined || value <= max)) return value
  const bound =
    max !== undefined ? `from ${print(min)} to ${print(max)}` : above === true ? `more than ${print(min)}` : `at least ${print(min)}`
  return refuse(at, 'V9', `must be ${bound}, not ${written}`)
}

/** Milliseconds. */
export const duration = (bounds: Bounds = { min: 0 }): Kind<number> => ({
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const ms = parseDuration(value.trim())
    return ms === undefined ? refuse(at, 'V10', `"${value}" is not a duration`) : within(ms, bounds, at, printDuration, value)
  },
  print: printDuration,
  schema: z.string(),
})

/** Milliseconds, written as whole seconds; 0 means the default. */
export const seconds: Kind<number> = {
  read: (value, at) => {
    const count = whole({ min: 0 }).read(value, at)
    return count === undefined || count === 0 ? undefined : count * 1000
  },
  print: (ms) => ms / 1000,
  schema: z.int().min(0),
}

/** Bytes. */
export const size = (bounds: Bounds): Kind<number> => ({
  read: (value, at) => {
    if (typeof value !== 'string' && typeof value !== 'number') return refuseType(at, 'quantity', value)
    const bytes = parseQuantity(String(value).trim())
    if (bytes === undefined) return refuse(at, 'V10', `"${value}" is not a quantity`)
    return within(Math.floor(bytes), bounds, at, printQuantity, String(value))
  },
  print: printQuantity,
  schema: z.union([z.string(), z.int()]),
})
