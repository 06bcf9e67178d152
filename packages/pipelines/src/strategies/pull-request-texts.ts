// What a promotion writes into Git and the forge: branch, commit message, title and body, and how its key is found in them. Pure.
import type { PullRequest } from '../forges/forge.ts'
import type { RemoteCommit } from '../git/workspace.ts'
import type { AttemptInput } from './strategy.ts'

export interface Texts {
  readonly branch: string
  readonly title: string
  /** With the trailers that name the promotion. */
  readonly message: string
  readonly body: (files: readonly string[]) => string
}

type Source = Pick<AttemptInput, 'promotion' | 'pipeline'>

const TITLE_MAX = 250
const FILES_SHOWN = 100

export function textsOf({ promotion, pipeline }: Source): Texts {
  const { key, run } = promotion.spec
  const revision = toLine(promotion.spec.revision)
  const previousRevisions = (promotion.spec.previousRevisions ?? []).map(toLine)
  const title = `${titleStart({ promotion, pipeline })}${revision}`.slice(0, TITLE_MAX)
  const trailers = [`Promotion-Id: ${key}`, `Promotion: ${promotion.namespace}/${promotion.name}`, `Pipeline-Run: ${run}`]
  return {
    branch: branchOf({ promotion, pipeline }),
    title,
    message: `${title}\n\n${trailers.join('\n')}\n`,
    body: (files) =>
      [
        `${pipeline.namespace}/${pipeline.name}/${promotion.spec.environment}`,
        '',
        `Run: ${run}`,
        `Revision before: ${previousRevisions.length === 0 ? 'none' : previousRevisions.join(', ')}`,
        `Revision after: ${revision}`,
        '',
        'Files:',
        ...files.slice(0, FILES_SHOWN).map((file) => `- \`${file}\``),
        ...(files.length > FILES_SHOWN ? [`- and ${files.length - FILES_SHOWN} more`] : []),
        '',
        keyLine(key),
      ].join('\n'),
  }
}

/** A revision is foreign text: it must not add a line, such as a trailer, nor a comment, such as a key. */
const toLine = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ').replaceAll('<!--', '<! --')

const titleStart = ({ promotion, pipeline }: Source): string =>
  `Promote ${pipeline.namespace}/${pipeline.name} in ${promotion.spec.environment} to `

/** Under policy Update one branch serves all runs, with the name that the public controller uses. */
function branchOf(source: Source): string {
  const { supersede, run, key } = source.promotion.spec
  return supersede === 'Update' ? compatibleBranch(source) : `${runBranchPrefix(source)}${run}-${key.slice(0, 8)}`
}

const partsOf = ({ promotion, pipeline }: Source): string[] => [pipeline.namespace, pipeline.name, promotion.spec.environment]

export const compatibleBranch = (source: Source): string => `promotion-${partsOf(source).join('-')}`

/** Begin of the branches of all runs of this pipeline and environment. */
export function runBranchPrefix(source: Source): string {
  const prefix = source.promotion.spec.strategy['pull-request']?.branchPrefix ?? 'promotion/'
  const safe = partsOf(source).map((part) => part.replace(/[^A-Za-z0-9-]/g, '-'))
  return `${prefix}${safe.join('/')}/`
}

const keyLine = (key: string): string => `<!-- brokkr-promotion: ${key} -->`

export const hasKey = ({ body }: Pick<PullRequest, 'body'>, key: string): boolean => body.includes(keyLine(key))

/** The key in a body, of whatever promotion. */
export const findKey = ({ body }: Pick<PullRequest, 'body'>): string | null => /<!-- brokkr-promotion: (\S+) -->/.exec(body)?.[1] ?? null

export type TipOwner = 'ours' | 'earlier-run' | 'other'

/** Whose commit the tip of our branch is, by its trailer. */
export function ownerOfTip({ message }: Pick<RemoteCommit, 'message'>, source: Source): TipOwner {
  const key = /^Promotion-Id: (\S+)$/m.exec(message)?.[1]
  if (key === source.promotion.spec.key) return 'ours'
  return key !== undefined && message.startsWith(titleStart(source)) ? 'earlier-run' : 'other'
}
