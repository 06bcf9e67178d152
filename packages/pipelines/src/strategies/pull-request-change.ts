// The commit of a promotion: marked values of the base branch edited, one parent, one branch. Pushed with a lease.
import { editMarkers, MarkerError } from '../git/markers.ts'
import { GitError, type MarkedFile, type RemoteCommit } from '../git/workspace.ts'
import { isOfPublicController } from './pull-request-others.ts'
import { configurationError, type Session } from './pull-request-session.ts'
import { compatibleBranch, ownerOfTip, type Texts } from './pull-request-texts.ts'
import type { AttemptInput } from './strategy.ts'

export interface Change {
  readonly baseSha: string
  /** Null: every marked value is right already. */
  readonly commitSha: string | null
  readonly files: readonly MarkedFile[]
}

const AUTHOR = { name: 'Brokkr Pipelines', email: 'pipelines@brokkr.io' }

/** Throws MarkerError and GitError. Nothing is pushed. */
export async function buildChange(session: Session, texts: Texts): Promise<Change> {
  const { input, spec, git, seen } = session
  const { sha: baseSha } = await git.fetchBase(spec.baseBranch, input.signal)
  seen.baseSha = baseSha
  const marked = await git.listMarkedFiles({ sha: baseSha, paths: spec.paths ?? [] }, input.signal)
  const files = editAll(session, marked)
  if (files.length === 0) return { baseSha, commitSha: null, files }
  const commit = await git.commit(
    {
      parentSha: baseSha,
      files,
      message: texts.message,
      author: spec.author ?? AUTHOR,
      dateSeconds: dateSecondsOf(input),
    },
    input.signal,
  )
  return { baseSha, commitSha: commit?.sha ?? null, files }
}

/** The files that differ after the edit. */
export function editAll({ input: { promotion, pipeline }, spec }: Session, marked: readonly MarkedFile[]): MarkedFile[] {
  const owner = `${pipeline.namespace}:${pipeline.name}:${promotion.spec.environment}`
  const edited = marked.map((file) => {
    const content = editMarkers(file.content, { path: file.path, owner, revision: promotion.spec.revision })
    return content === null ? null : { before: file, after: { ...file, content } }
  })
  const ours = edited.filter((each) => each !== null)
  if (ours.length === 0) throw new MarkerError('MarkerNotFound', `no YAML file of branch "${spec.baseBranch}" has a marker for ${owner}`)
  return ours.filter(({ before, after }) => !Buffer.from(before.content).equals(after.content)).map(({ after }) => after)
}

/** The commit at the tip of our branch: ours, or that of a person who added commits. Throws for a branch that is not ours. */
export async function pushChange(session: Session, texts: Texts, commitSha: string): Promise<string> {
  const { input, git } = session
  const tip = await git.readTip(texts.branch, input.signal)
  if (tip !== null && (tip.sha === commitSha || (await isAdopted(session, texts, tip)))) return tip.sha
  const at = { branch: texts.branch, sha: commitSha, expected: tip?.sha ?? null }
  if ((await git.push(at, input.signal)) === 'pushed') return commitSha
  throw new GitError({ outcome: 'failed', class: 'transient', reason: 'PushLost', message: `another writer moved branch ${texts.branch}` })
}

const dateSecondsOf = ({ promotion }: AttemptInput): number => Math.floor(Date.parse(promotion.createdAt) / 1000)

/**
 * The commit of the record, or one that the controller made of it on another base and pushed before a crash. A person who amends it becomes
 * its committer, at another time.
 */
export function isOwnCommit(tip: RemoteCommit, texts: Texts, input: AttemptInput): boolean {
  if (tip.sha === input.promotion.status.effect?.commitSha) return true
  return tip.message === texts.message && tip.author === tip.committer && tip.committer.endsWith(` ${dateSecondsOf(input)} +0000`)
}

/** False: our commit on an older base, or an earlier run of this pipeline and environment or the public controller left it, so it is rewritten. */
async function isAdopted(session: Session, texts: Texts, tip: RemoteCommit): Promise<boolean> {
  const { input, git } = session
  const owner = ownerOfTip(tip, input)
  if (owner !== 'other') return owner === 'ours' && !isOwnCommit(tip, texts, input)
  const recorded = input.promotion.status.effect?.commitSha
  if (recorded !== undefined && (await git.isAncestor(recorded, tip.sha, texts.branch, input.signal))) return true
  if (texts.branch === compatibleBranch(input) && (await isOfPublicController(session, texts.branch))) return false
  throw configurationError('BranchTaken', `the branch ${texts.branch} exists and was not made by this pipeline`)
}
