// A difference of two manifests. Values of Secrets arrive masked from the broker; a mask is shown as a chip.
import { useMemo } from 'react'
import { Icon } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'
import { diffLines, toHunks } from './line-diff.ts'

const signs = { same: ' ', add: '+', del: '-' } as const
const maskedValue = '***'

export function DiffView({ before, after }: { before: string; after: string }) {
  const hunks = useMemo(() => toHunks(diffLines(before, after)), [before, after])
  if (hunks.length === 0) return <p className="quiet">Both texts are equal. Masked values may still differ.</p>
  return (
    <div className="diff-view" tabIndex={0} role="region" aria-label="Difference">
      {hunks.map((hunk) => (
        <div key={hunk.lines[0]!.oldNo ?? `n${hunk.lines[0]!.newNo}`}>
          {hunk.skipped > 0 ? <div className="diff-skip">{hunk.skipped} equal lines</div> : null}
          {hunk.lines.map((line) => (
            <div key={`${line.oldNo} ${line.newNo}`} className={`diff-line ${line.kind}`}>
              <i>{line.oldNo}</i>
              <i>{line.newNo}</i>
              <b>{signs[line.kind]}</b>
              <span>
                <MaskedText text={line.text} />
              </span>
            </div>
          ))}
        </div>
      ))}
    </div>
  )
}

export function MaskedText({ text }: { text: string }) {
  const parts = plainText(text, 2_000).split(maskedValue)
  return parts.map((part, index) => (
    <span key={index}>
      {index === 0 ? null : (
        <span className="mask" title="value of a Secret, not shown">
          <Icon name="eyeoff" size="s" />
          secret
        </span>
      )}
      {part}
    </span>
  ))
}
