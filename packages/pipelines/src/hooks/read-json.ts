// A JSON body by its schema, or a refusal that names the field.
import type { z } from 'zod'
import { Refusal } from './answer.ts'

export function readJson<T>(schema: z.ZodType<T>, body: Uint8Array): T {
  const parsed = schema.safeParse(parse(body))
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new Refusal(422, `${issue?.path.join('.') || 'the body'}: ${issue?.message ?? 'not valid'}`)
}

function parse(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
  } catch {
    throw new Refusal(400, 'the body must be JSON')
  }
}
