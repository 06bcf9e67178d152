// Text of others: control characters and bidirectional overrides are shown as escapes, so that no name can pretend to be another.
// eslint-disable-next-line no-control-regex
const invisible = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g
// eslint-disable-next-line no-control-regex
const ansi = /\u001b\[[0-9;?]*[ -/]*[@-~]/g

/** Pure. Long texts are cut; the cut is said. */
export function plainText(text: string, charactersMax = 4_000): string {
  const cut = text.length > charactersMax ? `${text.slice(0, charactersMax)} … ${text.length - charactersMax} characters more` : text
  return cut.replace(ansi, '').replace(invisible, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** A name in a cell: one line, cut by style, whole in its title. */
export function Name({ text, className = '' }: { text: string; className?: string }) {
  const shown = plainText(text, 300)
  return (
    <bdi className={`cut ${className}`} title={shown}>
      {shown}
    </bdi>
  )
}
