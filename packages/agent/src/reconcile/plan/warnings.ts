// Warnings of a successful apply: reserved metadata in the manifest, and warnings of the API server, such as a deprecated version. Pure.
import { type ApplyOutcome, describeRef, refOf } from '@brokkr/kube'
import type { DesiredObject } from './desired.ts'
import { maskText } from './mask.ts'

const warningsMax = 20

export function listWarnings(desired: readonly DesiredObject[], applied: readonly ApplyOutcome[]): string[] {
  const reserved = desired.flatMap(({ object, overwritten }) =>
    overwritten.map((key) => `${describeRef(refOf(object))}: ${key} is the agent's own and was overwritten`),
  )
  const served = applied.flatMap(({ ref, warnings }) => warnings.map((text) => `${describeRef(ref)}: ${text}`))
  const objects = desired.map(({ uncut }) => uncut)
  return [...reserved, ...served].slice(0, warningsMax).map((text) => maskText(text, objects))
}
