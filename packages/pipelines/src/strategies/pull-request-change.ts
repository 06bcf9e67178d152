// The commit of a promotion: marked values of the base branch edited, one parent, one branch. Pushed with a lease.
import { editMarkers, MarkerError } from '../git/markers.ts'
import { GitError, type MarkedFile, type RemoteCommit } from '../git/workspace.ts'
import { AUTHOR, hasOwnIdentity, isOfEarlierRun } from './pull-request-identity.ts'
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

/** Throws MarkerError and GitError. Nothing is pushed. */
export async function buildChange(session: Session, texts: Texts): Promise<Change> {
  return buildChangeOn(session, texts, await readBase(session))
}

/** The commit of the base branch. One that does not exist has an empty id, so that its creation ends the block. */
export async function readBase({ git, spec, input, seen }: Session): Promise<string> {
  try {
    const { sha } = await git.fetchBase(spec.baseBranch, input.signal)
    seen.baseSha = sha
    return sha
  } catch (error) {
    if (!(error instanceof GitError) || error.failure.reason !== 'BranchNotFound') throw error
    seen.baseSha = ''
    const message = `the base branch "${spec.baseBranch}" does not exist: create it, or correct baseBranch in the pipeline`
    throw new GitError({ ...error.failure, message })
  }
}

/** The same promotion and base give the same commit. */
async function buildChangeOn(session: Session, texts: Texts, baseSha: string): Promise<Change> {
  const { input, spec, git } = session
  const marked = await git.listMarkedFiles({ sha: baseSha, paths: spec.paths ?? [] }, input.signal)
  const files = editAll(session, marked)
  if (files.length === 0) return { baseSha, commitSha: null, files }
  const author = spec.author ?? AUTHOR
  const about = { parentSha: baseSha, message: texts.message, author, dateSeconds: dateSecondsOf(input) }
  const commit = await git.commit({ ...about, files }, input.signal)
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

/** Our commit that the branch has; null: the tip is of a person, who keeps it. Throws for a branch that is not ours. */
export async function pushChange(session: Session, texts: Texts, commitSha: string): Promise<string | null> {
  const { input, git } = session
  const tip = await git.readTip(texts.branch, input.signal)
  if (tip?.sha === commitSha) return commitSha
  if (tip !== null && (await isOfPerson(session, texts, tip))) return null
  const at = { branch: texts.branch, sha: commitSha, expected: tip?.sha ?? null }
  if ((await git.push(at, input.signal)) === 'pushed') return commitSha
  throw new GitError({ outcome: 'failed', class: 'transient', reason: 'PushLost', message: `another writer moved branch ${texts.branch}` })
}

const dateSecondsOf = ({ promotion }: AttemptInput): number => Math.floor(Date.parse(promotion.createdAt) / 1000)

/**
 * Whether the controller pushed the tip for this promotion: the commit of the record, or the one that the promotion gives on the tip's
 * parent, which a crash kept out of the record. Trailer, identity and dates alone are also in a commit that a person amended.
 */
export async function isOwnCommit(session: Session, texts: Texts, tip: RemoteCommit): Promise<boolean> {
  const { input, git } = session
  const [parentSha] = tip.parents
  const isLikeOurs = tip.message === texts.message && hasOwnIdentity(session, tip) && tip.author.endsWith(` ${dateSecondsOf(input)} +0000`)
  if (!isLikeOurs || parentSha === undefined || tip.parents.length > 1) return false
  if (tip.sha === input.promotion.status.effect?.commitSha) return true
  if (!(await git.fetchParent({ branch: texts.branch, sha: tip.sha }, input.signal))) return false
  try {
    return (await buildChangeOn(session, texts, parentSha)).commitSha === tip.sha
  } catch (error) {
    // No marker there, or an unreadable one: the promotion gives no commit on that parent.
    if (error instanceof MarkerError) return false
    throw error
  }
}

/** False: our commit on an older base, or one that an earlier run or the public controller left. It is rewritten. */
async function isOfPerson(session: Session, texts: Texts, tip: RemoteCommit): Promise<boolean> {
  const { input, git } = session
  if (ownerOfTip(tip, input) === 'ours') return !(await isOwnCommit(session, texts, tip))
  if (await isOfEarlierRun(session, tip)) return false
  const recorded = input.promotion.status.effect?.commitSha
  if (recorded !== undefined && (await git.isAncestor(recorded, tip.sha, texts.branch, input.signal))) return true
  if (texts.branch === compatibleBranch(input) && (await isOfPublicController(session, texts.branch))) return false
  throw configurationError(
    'BranchTaken',
    `the branch ${texts.branch} has commits that this pipeline did not make: merge or delete the branch`,
  )
}
